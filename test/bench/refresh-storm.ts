/** Benchmark of a refresh storm: many requests at once to several processes, for one user with an expired token. */
import { type CrowdUser, startCrowd } from '../support/crowd.ts';
import { missingRedis } from '../support/redis-server.ts';
import { type Question, questionOf } from './connection.ts';
import { type Effort, say } from './effort.ts';
import { type Finding, tellFindings } from './findings.ts';
import { burst, median, quantile } from './load.ts';

const PROCESSES = 4;
const EACH = 50;
/** Users that use the processes beforehand. */
const OTHERS = 20;
/** The delay of the provider's response. */
const PROVIDER_MILLISECONDS = 100;
const STORE = missingRedis === undefined ? 'Redis' : 'SQLite';

export async function benchRefreshStorm({ runs }: Effort): Promise<Finding[]> {
  const crowd = await startCrowd({ kind: STORE, processes: PROCESSES, users: 1 + OTHERS });
  try {
    const [person, ...others] = crowd.users;
    if (!person) throw new Error('Nobody is signed in.');
    crowd.provider.delayMilliseconds = () => PROVIDER_MILLISECONDS;
    const headersOf = ({ cookie }: CrowdUser) => ({
      host: new URL(crowd.env.PUBLIC_URL ?? '').host,
      accept: 'application/json',
      cookie,
    });
    const questionsOf = (person: CrowdUser) => {
      const body = Buffer.from(JSON.stringify({ owner: person.userId }));
      const questions = crowd.members.map(({ url }) =>
        questionOf(`${url}/threads/current`, { headers: headersOf(person), body }),
      );
      return questions.flatMap((question) => Array<Question>(EACH).fill(question));
    };
    const sessionOf =
      (person: CrowdUser) =>
      ({ host, port }: Question) =>
        questionOf(`http://${host}:${port}/session`, { headers: headersOf(person) });
    // A storm hits processes that are in use, so their first requests are not measured.
    for (const other of others) {
      const { failed } = await burst(questionsOf(other), sessionOf(other));
      if (failed > 0) throw new Error(`${failed} requests failed before the storm.`);
    }
    const questions = questionsOf(person);
    const storms: { calls: number; failed: number; p99: number }[] = [];
    // The first call of the provider is slower, and does not count.
    for (let run = 0; run <= runs; run++) {
      await crowd.expire(person);
      const before = crowd.provider.refreshes();
      const { failed, milliseconds } = await burst(questions, sessionOf(person));
      storms.push({ calls: crowd.provider.refreshes() - before, failed, p99: quantile(milliseconds, 0.99) });
    }
    const counted = storms.slice(1);
    const findings: Finding[] = [
      {
        what: 'most token calls in a storm',
        measured: Math.max(...counted.map(({ calls }) => calls)),
        unit: '',
        target: { most: 1 },
      },
      {
        what: 'failed requests',
        measured: counted.reduce((sum, { failed }) => sum + failed, 0),
        unit: '',
        target: { most: 0 },
      },
      {
        what: `p99, the provider's ${PROVIDER_MILLISECONDS} ms included`,
        measured: median(counted.map(({ p99 }) => p99)),
        unit: 'ms',
        target: { most: PROVIDER_MILLISECONDS + 50 },
      },
    ];
    say(tellFindings(`Refresh storm, ${PROCESSES} processes x ${EACH} requests, ${STORE}, ${runs} runs`, findings));
    return findings;
  } finally {
    await crowd.close();
  }
}
