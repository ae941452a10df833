/** Remembers the sign-ins that wait for the second factor, and counts their wrong codes. */

export interface PendingCodes {
  begin(uid: string, accountId: string): void;
  accountId(uid: string): string | undefined;
  /** Returns false after too many wrong codes: the sign-in must start again. */
  countWrong(uid: string): boolean;
  end(uid: string): void;
}

const MAX_WRONG_CODES = 5;
const MAX_PENDING = 1_000;

interface PendingSignIn {
  accountId?: string;
  wrongCodes: number;
}

export function createPendingCodes(): PendingCodes {
  const pending = new Map<string, PendingSignIn>();
  const save = (uid: string, entry: PendingSignIn) => {
    pending.set(uid, entry);
    const [oldest] = pending.keys();
    if (pending.size > MAX_PENDING && oldest !== undefined) pending.delete(oldest);
  };

  return {
    begin: (uid, accountId) => save(uid, { accountId, wrongCodes: 0 }),
    accountId: (uid) => pending.get(uid)?.accountId,
    countWrong(uid) {
      const entry = pending.get(uid) ?? { wrongCodes: 0 };
      entry.wrongCodes += 1;
      save(uid, entry);
      if (entry.wrongCodes < MAX_WRONG_CODES) return true;
      pending.delete(uid);
      return false;
    },
    end: (uid) => void pending.delete(uid),
  };
}
