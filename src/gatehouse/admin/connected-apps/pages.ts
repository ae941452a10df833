/** Pages of connected apps that only show something: the list, and an app with its activity. */
import type { Request } from 'express';
import type { AppRoute } from '../../../shared/provider/app-routes.ts';
import { ineffectiveWords } from '../../../shared/provider/provider-metadata.ts';
import { routesOf } from '../../connected-apps/route-match.ts';
import { secretAge } from '../credential.ts';
import { listQuery } from '../listing.ts';
import type { AdminPageData, AdminPageOfList, AdminPages } from '../page.ts';
import { type TimelineSection, timelineSection } from '../timeline/section.ts';
import type { Timelines } from '../timeline/timeline.ts';
import { APP_COLUMNS, type AppRow } from './columns.ts';
import type { AppFigures, ReadAppFigures } from './figures.ts';
import type { ConnectedAppReader } from './reader.ts';
import type { AppView } from './view.ts';

/** The data of each page of one app. */
export interface AppPageData extends AdminPageData {
  app: AppRow;
  /** The tab of the page. */
  tab: AppTab;
  /** Says which endpoints are set by hand without effect, if there are any. */
  ineffective: string | undefined;
}

type AppTab = 'overview' | 'settings' | 'activity';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/connected-apps/list': AdminPageOfList & { apps: readonly AppRow[]; unreadable: readonly string[] };
    'admin/connected-apps/overview': AppPageData & {
      figures: AppFigures;
      /** None without a platform. */
      routes: readonly AppRoute[];
    };
    'admin/connected-apps/activity': AppPageData & { timeline: TimelineSection };
  }
}

/** Returns what each page of an app shows: its title, and the data of its head. */
export type ContentOfApp = (app: AppView, tab: AppTab) => Omit<AppPageData, keyof AdminPageData> & { title: string };

export function createContentOfApp(clock: () => number): ContentOfApp {
  return (app, tab) => ({
    title: tab === 'overview' ? app.name : `${app.name}: ${tab}`,
    app: rowOf(app, clock()),
    tab,
    ineffective: ineffectiveText(app),
  });
}

export function connectedAppPages(parts: {
  reader: ConnectedAppReader;
  readFigures: ReadAppFigures;
  timelines: Pick<Timelines, 'ofApp'>;
  contentOf: ContentOfApp;
  pages: AdminPages;
  clock: () => number;
}) {
  const { reader, readFigures, timelines, contentOf, pages, clock } = parts;
  const readApp = (req: Request) => reader.read(String(req.params.id));

  const listPage = pages.page('admin/connected-apps/list', async ({ req, res }) => {
    const result = await pages.list(req, res, {
      name: 'connected-apps',
      fields: ['q'],
      query: listQuery,
      columns: APP_COLUMNS,
      read: reader.page,
    });
    if (!result) return undefined;
    return {
      title: 'Connected apps',
      apps: result.items.map((app) => rowOf(app, clock())),
      unreadable: await reader.unreadable(),
      list: result.list,
    };
  });

  const overviewPage = pages.page('admin/connected-apps/overview', async ({ req }) => {
    const app = await readApp(req);
    return { ...contentOf(app, 'overview'), figures: await readFigures(app.id), routes: routesOf(app) };
  });

  const activityPage = pages.page('admin/connected-apps/activity', async ({ req }) => {
    const app = await readApp(req);
    return {
      ...contentOf(app, 'activity'),
      timeline: await timelineSection(req, (query) => timelines.ofApp(app, query)),
    };
  });

  return { list: listPage.handler, overview: overviewPage.handler, activity: activityPage.handler };
}

function rowOf(app: AppView, now: number): AppRow {
  const { clientSecretSetAt: setAt, clientSecretExpiresAt: expiresAt } = app;
  return { ...app, secret: secretAge({ setAt, expiresAt }, now) };
}

function ineffectiveText({ ineffectiveEndpoints: names = [] }: AppView): string | undefined {
  if (names.length === 0) return undefined;
  const { detail, advice } = ineffectiveWords(names);
  return `${detail} ${advice}`;
}
