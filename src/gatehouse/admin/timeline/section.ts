/** The timeline on a page: the part of it that the URL asks for. */
import type { Request } from 'express';
import { ACTIVITIES, type Activity } from '../../audit/activity.ts';
import { type ListView, listPage } from '../list-page.ts';
import type { TimelinePage, TimelineQuery } from './view.ts';

/** For the view `admin/timeline`. */
export interface TimelineSection extends TimelinePage {
  /** The chosen kind. */
  kind: Activity | undefined;
  list: ListView;
}

const ITEMS = 25;
/** The page has more above it. */
const PLACE = '#timeline';

/** @param read the page of the timeline for a query */
export async function timelineSection(
  req: Request,
  read: (query: TimelineQuery) => Promise<TimelinePage>,
): Promise<TimelineSection> {
  const { values, place, view } = listPage(req, ['kind'], { limit: ITEMS });
  const kind = ACTIVITIES.find((one) => one === values.kind);
  const page = await read({ kind, ...place });
  const list = view({ rows: page.items.length, next: page.next });
  const { previous, next } = list;
  return {
    ...page,
    kind,
    list: { ...list, previous: previous && previous + PLACE, next: next && next + PLACE },
  };
}
