/** The part of a timeline on a page, as the URL requests it. */
import type { Request } from 'express';
import { AppError } from '../../../shared/errors.ts';
import { ACTIVITIES, type Activity } from '../../audit/activity.ts';
import { type ListView, listPage } from '../list-page.ts';
import type { TimelinePage, TimelineQuery } from './view.ts';

export interface TimelineSection extends TimelinePage {
  /** The kind that the filter selects. */
  kind: Activity | undefined;
  list: ListView;
}

const ITEMS = 25;
/** The timeline is at the bottom of its page. */
const FRAGMENT = '#timeline';

export async function timelineSection(
  req: Request,
  read: (query: TimelineQuery) => Promise<TimelinePage>,
): Promise<TimelineSection> {
  const { values, position, view } = listPage(req, ['kind'], { limit: ITEMS });
  const kind = ACTIVITIES.find((activity) => activity === values.kind);
  if (values.kind !== '' && !kind) throw new AppError('invalid_request', { detail: 'There is no such kind of event.' });
  const page = await read({ kind, ...position });
  const list = view({ rows: page.items.length, next: page.next });
  const { previous, next } = list;
  return {
    ...page,
    kind,
    list: { ...list, previous: previous && previous + FRAGMENT, next: next && next + FRAGMENT },
  };
}
