/** Owns the sign-ins that wait for their second factor: whose password was right, and how many wrong codes came since. */

export interface PendingCodes {
  begin(uid: string, accountId: string): void;
  accountId(uid: string): string | undefined;
  /** False when that was one too many: the sign-in has to begin anew. */
  countWrong(uid: string): boolean;
  end(uid: string): void;
}

const MOST_WRONG_CODES = 5;
const MOST_PENDING = 1_000;

export function createPendingCodes(): PendingCodes {
  const pending = new Map<string, { accountId?: string; wrong: number }>();
  const keep = (uid: string, entry: { accountId?: string; wrong: number }) => {
    pending.set(uid, entry);
    const [oldest] = pending.keys();
    if (pending.size > MOST_PENDING && oldest !== undefined) pending.delete(oldest);
  };

  return {
    begin: (uid, accountId) => keep(uid, { accountId, wrong: 0 }),
    accountId: (uid) => pending.get(uid)?.accountId,
    countWrong(uid) {
      const entry = pending.get(uid) ?? { wrong: 0 };
      entry.wrong += 1;
      keep(uid, entry);
      if (entry.wrong < MOST_WRONG_CODES) return true;
      pending.delete(uid);
      return false;
    },
    end: (uid) => void pending.delete(uid),
  };
}
