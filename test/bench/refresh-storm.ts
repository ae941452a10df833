/** Benchmark of a refresh storm: many requests at once to several processes, for one user with an expired token. */
import { type CrowdUser, startCrowd } from '../support/crowd.ts';
import { missingRedis } from '../support/redis-server.ts';
import { type PreparedRequest, prepareRequest } from './connection.ts';
import { type Effort, print } from './effort.ts';
import { type Finding, formatFindings } from './findings.ts';
import { burst, median, quantile } from './load.ts';

const PROCESSES = 4;
const REQUESTS_PER_PROCESS = 50;
/** Users whose requests warm up the processes. */
const WARM_UP_USERS = 20;
/** The delay of the provider's response. */
const PROVIDER_MILLISECONDS = 100;
const STORE = missingRedis === undefined ? 'Redis' : 'SQLite';

export async function benchRefreshStorm({ runs }: Effort): Promise<Finding[]> {
  const crowd = await startCrowd({ kind: STORE, processes: PROCESSES, users: 1 + WARM_UP_USERS });
  try {
    const [user, ...warmUpUsers] = crowd.users;
    if (!user) throw new Error('There are no users.');
    crowd.provider.delayMilliseconds = () => PROVIDER_MILLISECONDS;
    const headersOf = ({ cookie }: CrowdUser) => ({
      host: new URL(crowd.env.PUBLIC_URL ?? '').host,
      accept: 'application/json',
      cookie,
    });
    const requestsOf = (user: CrowdUser) => {
      const body = Buffer.from(JSON.stringify({ owner: user.userId }));
      const requests = crowd.members.map(({ url }) =>
        prepareRequest(`${url}/threads/current`, { headers: headersOf(user), body }),
      );
      return requests.flatMap((request) => Array<PreparedRequest>(REQUESTS_PER_PROCESS).fill(request));
    };
    const sessionRequestOf =
      (user: CrowdUser) =>
      ({ host, port }: PreparedRequest) =>
        prepareRequest(`http://${host}:${port}/session`, { headers: headersOf(user) });
    // A storm hits processes that are in use, so their first requests are not measured.
    for (const warmUpUser of warmUpUsers) {
      const { failed } = await burst(requestsOf(warmUpUser), sessionRequestOf(warmUpUser));
      if (failed > 0) throw new Error(`${failed} requests failed before the storm.`);
    }
    const requests = requestsOf(user);
    const storms: { calls: number; failed: number; p99: number }[] = [];
    // The first call of the provider is slower, and does not count.
    for (let run = 0; run <= runs; run++) {
      await crowd.expire(user);
      const refreshesBefore = crowd.provider.refreshes();
      const { failed, milliseconds } = await burst(requests, sessionRequestOf(user));
      storms.push({ calls: crowd.provider.refreshes() - refreshesBefore, failed, p99: quantile(milliseconds, 0.99) });
    }
    const measuredStorms = storms.slice(1);
    const findings: Finding[] = [
      {
        what: 'most token calls in a storm',
        measured: Math.max(...measuredStorms.map(({ calls }) => calls)),
        unit: '',
        target: { most: 1 },
      },
      {
        what: 'failed requests',
        measured: measuredStorms.reduce((sum, { failed }) => sum + failed, 0),
        unit: '',
        target: { most: 0 },
      },
      {
        what: `p99, the provider's ${PROVIDER_MILLISECONDS} ms included`,
        measured: median(measuredStorms.map(({ p99 }) => p99)),
        unit: 'ms',
        target: { most: PROVIDER_MILLISECONDS + 50 },
      },
    ];
    print(
      formatFindings(
        `Refresh storm, ${PROCESSES} processes x ${REQUESTS_PER_PROCESS} requests, ${STORE}, ${runs} runs`,
        findings,
      ),
    );
    return findings;
  } finally {
    await crowd.close();
  }
}
