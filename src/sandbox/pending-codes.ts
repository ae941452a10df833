/** Sign-ins that wait for the second factor, with the number of wrong codes. */

export interface PendingCodes {
  begin(uid: string, accountId: string): void;
  accountId(uid: string): string | undefined;
  /** Returns false after too many wrong codes: the sign-in must start again. */
  countWrong(uid: string): boolean;
  end(uid: string): void;
}

const MAX_WRONG_CODES = 5;
const MAX_PENDING = 1_000;

export function createPendingCodes(): PendingCodes {
  const pending = new Map<string, { accountId?: string; wrong: number }>();
  const save = (uid: string, entry: { accountId?: string; wrong: number }) => {
    pending.set(uid, entry);
    const [oldest] = pending.keys();
    if (pending.size > MAX_PENDING && oldest !== undefined) pending.delete(oldest);
  };

  return {
    begin: (uid, accountId) => save(uid, { accountId, wrong: 0 }),
    accountId: (uid) => pending.get(uid)?.accountId,
    countWrong(uid) {
      const entry = pending.get(uid) ?? { wrong: 0 };
      entry.wrong += 1;
      save(uid, entry);
      if (entry.wrong < MAX_WRONG_CODES) return true;
      pending.delete(uid);
      return false;
    },
    end: (uid) => void pending.delete(uid),
  };
}
