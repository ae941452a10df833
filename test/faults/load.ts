/** A steady load of thread requests on a crowd. Checks the owner, status and duration of each response. */
import type { Crowd, CrowdUser } from '../support/crowd.ts';
import type { Member } from '../support/fleet.ts';
import { startStopwatch } from '../support/stopwatch.ts';

export interface LoadTally {
  requests: number;
  /** Number of responses by status; 0 for requests without a response. */
  statuses: Record<number, number>;
  /** Users who got the thread of another user. Must be empty. */
  misled: string[];
  /** At most 20 responses other than 200. */
  failures: string[];
  slowestMilliseconds: number;
  /** The slowest response with 503. */
  slowestRefusalMilliseconds: number;
}

export interface Load {
  /** Waits for pending requests. */
  stop(): Promise<LoadTally>;
  readonly tally: LoadTally;
}

/**
 * Sends requests for one user after the other, at this rate if responses come within a second. A starved machine gets
 * fewer requests, because these tests do not check its throughput.
 */
export function startLoad(
  crowd: Crowd,
  options: { perSecond: number; users?: readonly CrowdUser[]; members?: () => readonly Member[] },
): Load {
  const { perSecond, users = crowd.users, members = () => crowd.members } = options;
  const tally: LoadTally = {
    requests: 0,
    statuses: {},
    misled: [],
    failures: [],
    slowestMilliseconds: 0,
    slowestRefusalMilliseconds: 0,
  };
  const pending = new Set<Promise<void>>();
  const startedAt = performance.now();

  const callOnce = async (member: Member, user: CrowdUser): Promise<void> => {
    const elapsed = startStopwatch();
    const response = await crowd.thread(member, user).catch((error: Error) => ({ status: 0, body: error.message }));
    const milliseconds = elapsed();
    tally.slowestMilliseconds = Math.max(tally.slowestMilliseconds, milliseconds);
    if (response.status === 503)
      tally.slowestRefusalMilliseconds = Math.max(tally.slowestRefusalMilliseconds, milliseconds);
    tally.statuses[response.status] = (tally.statuses[response.status] ?? 0) + 1;
    if (response.status !== 200) {
      if (tally.failures.length < 20) tally.failures.push(`${response.status} ${response.body.slice(0, 300)}`);
    } else if ((JSON.parse(response.body) as { owner: string }).owner !== user.userId) {
      tally.misled.push(user.name);
    }
  };

  const timer = setInterval(() => {
    const dueRequests = ((performance.now() - startedAt) / 1000) * perSecond;
    const balancedMembers = members();
    while (tally.requests < dueRequests && pending.size < perSecond && balancedMembers.length > 0) {
      const user = users[tally.requests % users.length];
      const member = balancedMembers[tally.requests % balancedMembers.length];
      tally.requests += 1;
      if (!user || !member) return;
      const request = callOnce(member, user);
      pending.add(request);
      void request.finally(() => pending.delete(request));
    }
  }, 5);

  return {
    tally,
    async stop() {
      clearInterval(timer);
      await Promise.all(pending);
      return tally;
    },
  };
}
