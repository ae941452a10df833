/** Stores failures under the references that error pages show, so that administrators can look them up. */
import type { IncomingMessage } from 'node:http';
import { callerNetwork } from '../config/networks.ts';
import type { AppError, ProblemCode } from '../errors.ts';
import { remembered } from '../remembered.ts';
import { keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';
import { DAY_MS, DAY_SECONDS } from '../time.ts';
import { isOurFailure } from './problem-texts.ts';

export interface ProblemRecord {
  reference: string;
  requestId: string;
  /** Milliseconds since the epoch. */
  at: number;
  code: ProblemCode;
  status: number;
  /** Pattern of the route, without a path or query. */
  route: string;
  userId?: string | undefined;
  /** Code or class of the error that caused the failure. */
  cause?: string | undefined;
}

export interface ProblemReferences {
  /**
   * Stores a failure of a signed-in user's request, or of Gatehouse, up to a daily limit. Never rejects.
   * @returns the reference if it can be looked up, here or in the sign-in record; otherwise a page must not show it
   */
  record(req: IncomingMessage, error: AppError): Promise<string | undefined>;
  find(reference: string): Promise<ProblemRecord | undefined>;
}

const LIFETIME_SECONDS = 30 * DAY_SECONDS;
/**
 * Maximum number of records per day and process, for each user or address, and for all callers together who are not
 * signed in.
 */
const MAX_OF_CALLER = 50;
const MAX_ANONYMOUS = 1_000;
const MAX_CALLERS = 10_000;

/** @param parts `isKnown`: returns whether the sign-in record has the reference */
export function createProblemReferences(parts: {
  store: Pick<Store, 'get' | 'write'>;
  clock: () => number;
  isKnown: (reference: string) => Promise<boolean>;
}): ProblemReferences {
  const { store, clock, isKnown } = parts;
  const counts = remembered<number>(MAX_CALLERS);

  const countWithinLimit = (caller: string, limit: number): boolean => {
    const name = `${Math.floor(clock() / DAY_MS)} ${caller}`;
    const count = (counts.get(name) ?? 0) + 1;
    counts.set(name, count);
    return count <= limit;
  };

  /** The address is counted first, so that one address beyond its limit does not use up that of all. */
  const isWithinBudget = (userId: string | undefined, address: string): boolean =>
    userId === undefined
      ? countWithinLimit(callerNetwork(address), MAX_OF_CALLER) && countWithinLimit('all', MAX_ANONYMOUS)
      : countWithinLimit(userId, MAX_OF_CALLER);

  const save = (record: ProblemRecord) =>
    store.write([
      {
        put: keys.problem(record.reference),
        value: JSON.stringify(record),
        ifVersion: 0,
        lifetimeSeconds: LIFETIME_SECONDS,
      },
    ]);

  const recordFailure = async ({ context }: IncomingMessage, error: AppError): Promise<boolean> => {
    const { id: requestId, reference, route, session, address } = context;
    const userId = session?.user.id;
    const { code, status } = error;
    // While the storage refuses writes, the sign-in record may still have the failure.
    const isStorable = code !== 'storage_unavailable' && (userId !== undefined || isOurFailure(error));
    if (!isStorable || !isWithinBudget(userId, address)) return isKnown(reference);
    const cause = causeOf(error.cause);
    return (await save({ reference, requestId, at: clock(), code, status, route, userId, cause })) !== undefined;
  };

  return {
    async record(req, error) {
      if (error.reference !== undefined) return error.reference;
      return (await recordFailure(req, error).catch(() => false)) ? req.context.reference : undefined;
    },
    async find(reference) {
      if (!REFERENCE.test(reference)) return undefined;
      const stored = await store.get(keys.problem(reference));
      return stored && (JSON.parse(stored.value) as ProblemRecord);
    },
  };
}

const REFERENCE = /^[A-Za-z0-9-]{8}$/;

function causeOf(cause: unknown): string | undefined {
  if (!(cause instanceof Error)) return undefined;
  return 'code' in cause && typeof cause.code === 'string' ? cause.code : cause.name;
}
