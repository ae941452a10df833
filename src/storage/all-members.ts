/** Reads an index to its end, for lists that are short as a rule and must never be cut off. */
import type { IndexPage, Store } from './store.ts';

const BATCH = 500;

/** In the order of the index. */
export async function allMembers(store: Pick<Store, 'page'>, index: string): Promise<string[]> {
  const members: string[] = [];
  let page: IndexPage | undefined;
  do {
    page = await store.page(index, { limit: BATCH, ...(page?.next === undefined ? {} : { after: page.next }) });
    members.push(...page.items.map(({ member }) => member));
  } while (page.next !== undefined);
  return members;
}
