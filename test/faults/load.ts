/** A steady load of thread requests on a crowd, each answer judged: whose thread it is, how it went and how long it took. */
import type { Crowd, CrowdPerson } from '../support/crowd.ts';
import type { Member } from '../support/fleet.ts';
import { startStopwatch } from '../support/stopwatch.ts';

export interface LoadTally {
  asked: number;
  /** Answers by status; 0 where none came. */
  statuses: Record<number, number>;
  /** Those who saw what is not theirs: there must be none. */
  strangers: string[];
  /** What was answered but 200, at most 20 of them. */
  failures: string[];
  slowestMilliseconds: number;
  /** Of the answers 503. */
  slowestRefusalMilliseconds: number;
}

export interface Load {
  /** Waits for what is under way. */
  stop(): Promise<LoadTally>;
  readonly tally: LoadTally;
}

/**
 * Asks for one person after the other, at this rate as long as the responses come within a second. A starved machine gets
 * fewer requests, not a growing crowd of them: how many a second it serves is not what these tests hold.
 */
export function startLoad(
  crowd: Crowd,
  options: { perSecond: number; people?: readonly CrowdPerson[]; members?: () => readonly Member[] },
): Load {
  const { perSecond, people = crowd.people, members = () => crowd.members } = options;
  const tally: LoadTally = {
    ...{ asked: 0, statuses: {}, strangers: [], failures: [] },
    ...{ slowestMilliseconds: 0, slowestRefusalMilliseconds: 0 },
  };
  const underWay = new Set<Promise<void>>();
  const startedAt = performance.now();

  const askOnce = async (member: Member, person: CrowdPerson): Promise<void> => {
    const took = startStopwatch();
    const answer = await crowd.thread(member, person).catch((error: Error) => ({ status: 0, body: error.message }));
    const milliseconds = took();
    tally.slowestMilliseconds = Math.max(tally.slowestMilliseconds, milliseconds);
    if (answer.status === 503)
      tally.slowestRefusalMilliseconds = Math.max(tally.slowestRefusalMilliseconds, milliseconds);
    tally.statuses[answer.status] = (tally.statuses[answer.status] ?? 0) + 1;
    if (answer.status !== 200) {
      if (tally.failures.length < 20) tally.failures.push(`${answer.status} ${answer.body.slice(0, 300)}`);
    } else if ((JSON.parse(answer.body) as { owner: string }).owner !== person.userId) {
      tally.strangers.push(person.name);
    }
  };

  const timer = setInterval(() => {
    const due = ((performance.now() - startedAt) / 1000) * perSecond;
    const open = members();
    while (tally.asked < due && underWay.size < perSecond && open.length > 0) {
      const person = people[tally.asked % people.length];
      const member = open[tally.asked % open.length];
      tally.asked += 1;
      if (!person || !member) return;
      const asked = askOnce(member, person);
      underWay.add(asked);
      void asked.finally(() => underWay.delete(asked));
    }
  }, 5);

  return {
    tally,
    async stop() {
      clearInterval(timer);
      await Promise.all(underWay);
      return tally;
    },
  };
}
