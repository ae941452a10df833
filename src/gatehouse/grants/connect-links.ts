/** Connect links: each lets one user connect one app once, within half an hour. Services create them. */
import { AppError } from '../../shared/errors.ts';
import { hashOf, keys } from '../../shared/storage/keys.ts';
import type { MatchingOptions, MatchingPage } from '../../shared/storage/matching-page.ts';
import {
  createOpaqueToken,
  matchesHash,
  newOpaqueTokenId,
  parseOpaqueToken,
} from '../../shared/storage/opaque-token.ts';
import { createRecords } from '../../shared/storage/records.ts';
import type { SealedJson } from '../../shared/storage/sealed-json.ts';
import type { Store, Write } from '../../shared/storage/store.ts';

export interface ConnectLink {
  id: string;
  userId: string;
  app: string;
  scopes: readonly string[];
  /** One of the return URLs that the app had when the link was created. */
  returnUrl: string | undefined;
  /** The relay token of the service that created the link. */
  relayToken: { id: string; name: string };
  /** Milliseconds since the epoch. */
  createdAt: number;
  expiresAt: number;
}

type StoredLink = ConnectLink & { hash: string };

export const CONNECT_LINK_PREFIX = 'gthl_';
const LIFETIME_SECONDS = 1_800;
/** How many links of one relay token, user and app can be open (R138). */
const MAX_OPEN = 10;
/** How many expired links each creation removes from the lists. */
const MAX_PRUNED = 100;
/** How many links are read from a list, and ended, at once. */
const MAX_ENDED_AT_ONCE = 100;

export interface ConnectLinks {
  /** Returns a page of the links, newest first. */
  page(options: MatchingOptions<ConnectLink>): Promise<MatchingPage<ConnectLink>>;
  find(id: string): Promise<ConnectLink | undefined>;

  /** Returns false for a link that was used, was revoked or has expired. */
  isOpen(userId: string, id: string): Promise<boolean>;

  /**
   * Creates a link, unless the user is disabled, deleted or signed out everywhere in the meantime. Disabling or
   * deleting the user later ends the link. If more than ten links of the relay token, user and app are open then, the
   * oldest of them end.
   * @param conditionsOfUser `UserStore.conditionsForImport`: called before each write; returns undefined if nothing may
   *   be stored for the user
   * @returns the link with its URL, which is shown only once; undefined if no link was created
   */
  create(
    link: Omit<ConnectLink, 'id' | 'createdAt' | 'expiresAt'>,
    conditionsOfUser: () => Promise<readonly Write[] | undefined>,
  ): Promise<{ link: ConnectLink; url: string } | undefined>;

  /**
   * Returns the open link with this text, if it is for this user.
   * @throws AppError `not_found` if it is unknown, used, revoked or expired; `not_allowed` if it is for another user
   */
  openFor(userId: string, text: string): Promise<ConnectLink>;

  /**
   * Revokes the link, even while its user is at the provider: no connection is stored then.
   * @returns false if it does not exist
   */
  revoke(id: string): Promise<boolean>;

  /** Revokes all links of a user, an app or a relay token. Reads only these. */
  revokeAll(owner: 'user' | 'app' | 'relay-token', ownerId: string): Promise<void>;
}

/** A link as the lists have it, so that it can be removed from all of them after its record has expired. */
interface ListedLink {
  id: string;
  userId: string;
  app: string;
  relayTokenId: string;
}

/**
 * A link is open while its ticket exists. The ticket has the user's slot tag, so the write that stores the grant also
 * deletes it: only one use succeeds, and a link is used up exactly if the connection was created.
 */
export function createConnectLinks(parts: {
  store: Store;
  sealedJson: SealedJson;
  publicHref: string;
  clock: () => number;
}): ConnectLinks {
  const { store, sealedJson, publicHref, clock } = parts;
  const records = createRecords<StoredLink, ConnectLink>({
    store,
    sealedJson,
    index: keys.connectLinks,
    keyOf: keys.connectLink,
    resource: 'connect link',
    toView: ({ value: { hash: _, ...link } }) => link,
    lifetimeSeconds: LIFETIME_SECONDS,
  });

  const isOpen = async (userId: string, id: string): Promise<boolean> =>
    (await store.get(keys.connectTicket(userId, id))) !== undefined;

  const prune = async (): Promise<void> => {
    const { items } = await store.page(keys.allConnectLinks, { limit: MAX_PRUNED });
    const expired = items
      .filter(({ score }) => score <= clock() - LIFETIME_SECONDS * 1000)
      .map(({ member }) => fromMember(member));
    // A clock may be ahead: while the record exists, the link may be open, and the lists must have it.
    const stored = await Promise.all(expired.map(({ id }) => store.get(keys.connectLink(id))));
    const gone = expired.filter((_, index) => stored[index] === undefined);
    if (gone.length === 0) return;
    await store.write(gone.flatMap((link) => [{ index: keys.connectLinks, remove: link.id }, ...removalsOf(link)]));
  };

  const end = async (link: ListedLink): Promise<boolean> => {
    await store.write([{ delete: keys.connectTicket(link.userId, link.id) }]);
    return records.remove(link.id, removalsOf(link));
  };

  const revoke = async (id: string): Promise<boolean> => {
    const link = await records.find(id);
    return link ? end(listedLink(link)) : false;
  };

  /** Lists a link as open, unless it has ended. If more than ten are open then, the oldest of them end. */
  const listAsOpen = async (link: ListedLink): Promise<void> => {
    const index = openListOf(link);
    // Numbers in place of times, so that a clock that was set back does not make a new link the oldest.
    const { items } = await store.page(index, { limit: 1, order: 'descending' });
    const score = (items[0]?.score ?? 0) + 1;
    // Without its record, the link has just been ended, and nothing would remove it from the list.
    const writes = [{ exists: keys.connectLink(link.id) }, { index, add: link.id, score }];
    if ((await store.write(writes)) === undefined || (await store.count(index)) <= MAX_OPEN) return;
    const openIds: string[] = [];
    for await (const ids of pagesOf(store, index)) {
      const isOpenById = await Promise.all(ids.map((id) => isOpen(link.userId, id)));
      // A link is listed here after its ticket was written, so one without a ticket was used or has ended.
      const closed = ids.filter((_, n) => !isOpenById[n]);
      if (closed.length > 0) await store.write(closed.map((id) => ({ index, remove: id })));
      openIds.push(...ids.filter((_, n) => isOpenById[n]));
    }
    const oldestIds = openIds.slice(0, Math.max(0, openIds.length - MAX_OPEN));
    await Promise.all(oldestIds.map((id) => end({ ...link, id })));
  };

  const otherAccountUrl = (text: string): string =>
    `${publicHref}/sign-out?return_to=${encodeURIComponent(new URL(`${publicHref}/connect/${text}`).pathname)}`;

  return {
    page: records.page,
    find: records.find,
    isOpen,

    async create(details, conditionsOfUser) {
      await prune();
      const { id, secret, text } = createOpaqueToken(CONNECT_LINK_PREFIX, newOpaqueTokenId());
      const createdAt = clock();
      const times = { createdAt, expiresAt: createdAt + LIFETIME_SECONDS * 1000 };
      const stored = { ...details, ...times, id, hash: hashOf(secret) };
      const listed = listedLink(stored);
      const member = toMember(listed);
      const link = await records.create(
        stored,
        listsOf(listed).map((index) => ({ index, add: member, score: createdAt })),
      );
      const ticket = keys.connectTicket(link.userId, id);
      for (;;) {
        const conditions = await conditionsOfUser();
        if (!conditions) {
          await end(listed);
          return undefined;
        }
        const isOpened = await store.write([
          { put: ticket, value: '', lifetimeSeconds: LIFETIME_SECONDS },
          ...conditions,
        ]);
        if (!isOpened) continue;
        await listAsOpen(listed);
        return { link, url: `${publicHref}/connect/${text}` };
      }
    },

    async openFor(userId, text) {
      const parsed = parseOpaqueToken(CONNECT_LINK_PREFIX, text);
      const link = parsed && (await records.read(parsed.id))?.value;
      const isValid = link && matchesHash(parsed.secret, link.hash) && link.expiresAt > clock();
      if (!isValid || !(await isOpen(link.userId, link.id))) throw new AppError('not_found', LINK_NOT_FOUND);
      // Revoking a relay token ends its links, but this link may have been created at that moment.
      if (!(await store.get(keys.relayToken(link.relayToken.id)))) throw new AppError('not_found', LINK_NOT_FOUND);
      if (link.userId === userId) return link;
      throw new AppError('not_allowed', {
        detail: 'You are signed in as another user than the one that this link is for, so nothing was connected.',
        words: {
          title: 'This link is for another user',
          advice: 'Sign in with the account that the link was created for.',
        },
        helper: 'you',
        action: { label: 'Use another account', url: otherAccountUrl(text), isForm: true },
      });
    },

    revoke,

    async revokeAll(owner, ownerId) {
      for await (const members of pagesOf(store, keys.connectLinksOf(owner, ownerId)))
        await Promise.all(members.map((member) => end(fromMember(member))));
    },
  };
}

const listedLink = ({ id, userId, app, relayToken }: ConnectLink): ListedLink => ({
  id,
  userId,
  app,
  relayTokenId: relayToken.id,
});

const toMember = ({ id, userId, app, relayTokenId }: ListedLink) => JSON.stringify([id, userId, app, relayTokenId]);

function fromMember(member: string): ListedLink {
  const [id, userId, app, relayTokenId] = JSON.parse(member) as [string, string, string, string];
  return { id, userId, app, relayTokenId };
}

/** The lists that have a link from its creation. */
const listsOf = ({ userId, app, relayTokenId }: ListedLink): string[] => [
  keys.allConnectLinks,
  keys.connectLinksOf('user', userId),
  keys.connectLinksOf('app', app),
  keys.connectLinksOf('relay-token', relayTokenId),
];

const openListOf = ({ userId, app, relayTokenId }: ListedLink) => keys.openConnectLinks(relayTokenId, userId, app);

const removalsOf = (link: ListedLink): Write[] => [
  ...listsOf(link).map((index) => ({ index, remove: toMember(link) })),
  { index: openListOf(link), remove: link.id },
];

/** The members of a list, oldest first. */
async function* pagesOf(store: Pick<Store, 'page'>, index: string): AsyncIterable<string[]> {
  let after: string | undefined;
  do {
    const options = { limit: MAX_ENDED_AT_ONCE, ...(after !== undefined && { after }) };
    const { items, next } = await store.page(index, options);
    yield items.map(({ member }) => member);
    after = next;
  } while (after !== undefined);
}

const LINK_NOT_FOUND = {
  detail: 'This link does not exist, was used, was revoked, or is older than 30 minutes.',
  words: { title: 'This link no longer works', advice: 'Ask for a new one where you got it.' },
};
