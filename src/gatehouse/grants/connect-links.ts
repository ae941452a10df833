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
/** How many expired links each creation removes from the list. */
const MAX_PRUNED = 100;

export interface ConnectLinks {
  /** Returns a page of the links, newest first. */
  page(options: MatchingOptions<ConnectLink>): Promise<MatchingPage<ConnectLink>>;
  find(id: string): Promise<ConnectLink | undefined>;

  /** Returns false for a link that was used, was revoked or has expired. */
  isOpen(userId: string, id: string): Promise<boolean>;

  /**
   * Creates a link, unless the user is disabled, deleted or signed out everywhere in the meantime. Disabling or
   * deleting the user later ends the link.
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

  /** Revokes all links of a user, an app or a relay token. Reads all links of the last 30 minutes. */
  revokeAll(owner: Partial<Pick<ConnectLink, 'userId' | 'app'>> & { relayTokenId?: string }): Promise<void>;
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
    const { items } = await store.page(keys.connectLinks, { limit: MAX_PRUNED });
    const expired = items.filter(({ score }) => score <= clock() - LIFETIME_SECONDS * 1000);
    if (expired.length === 0) return;
    await store.write(expired.map(({ member }) => ({ index: keys.connectLinks, remove: member })));
  };

  const revoke = async (id: string): Promise<boolean> => {
    const link = await records.find(id);
    if (!link) return false;
    await store.write([{ delete: keys.connectTicket(link.userId, id) }]);
    return records.remove(id);
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
      const link = await records.create({ ...details, ...times, id, hash: hashOf(secret) });
      const ticket = keys.connectTicket(link.userId, id);
      for (;;) {
        const conditions = await conditionsOfUser();
        if (!conditions) {
          await records.remove(id);
          return undefined;
        }
        const isOpened = await store.write([
          { put: ticket, value: '', lifetimeSeconds: LIFETIME_SECONDS },
          ...conditions,
        ]);
        if (isOpened) return { link, url: `${publicHref}/connect/${text}` };
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
          nextStep: 'Sign in with the account that the link was created for.',
        },
        whose: 'nobody',
        step: { label: 'Use another account', url: otherAccountUrl(text), isForm: true },
      });
    },

    revoke,

    async revokeAll(owner) {
      const filter = ({ userId, app, relayToken }: ConnectLink) =>
        userId === owner.userId || app === owner.app || relayToken.id === owner.relayTokenId;
      const { items } = await records.page({ limit: Number.POSITIVE_INFINITY, filter });
      await Promise.all(items.map(({ id }) => revoke(id)));
    },
  };
}

const LINK_NOT_FOUND = {
  detail: 'This link does not exist, was used, was revoked, or is older than 30 minutes.',
  words: { title: 'This link no longer works', nextStep: 'Ask for a new one where you got it.' },
};
