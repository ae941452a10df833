/** Makes the pages: their templates, the one-time data after redirects, and forms that count once. */
import type { SealedJson } from '../storage/sealed-json.ts';
import type { Store } from '../storage/store.ts';
import { createFlashes } from './flash.ts';
import { createPageSender, type PageConfig, type PageSender } from './page-sender.ts';
import { createSubmissions } from './submissions.ts';
import { createViews } from './views.ts';

export type Pages = PageSender;

export function createPages(parts: {
  storage: { store: Store; sealedJson: SealedJson };
  config: PageConfig;
  /** Absolute path of the program's templates. */
  views: string;
  clock: () => number;
}): Pages {
  const { storage, config, views, clock } = parts;
  return createPageSender({
    views: createViews({ directories: [views], clock }),
    flashes: createFlashes(storage),
    submissions: createSubmissions(storage),
    config,
  });
}
