/** Generates load: connections that send requests without pauses, or all at once. */
import { type Connection, isExpected, openConnection, type PreparedRequest } from './connection.ts';

export interface Loaded {
  requests: number;
  seconds: number;
  /** Milliseconds, like `p99`. */
  p50: number;
  p99: number;
}

/** Returns the next request of a connection, which always goes to the same server. */
export type NextRequest = (connection: number) => PreparedRequest;

/** Returns the requests of a list in turn, repeatedly. */
export function inTurn(requests: readonly PreparedRequest[]): NextRequest {
  let next = 0;
  return () => {
    const request = requests[next % requests.length];
    next += 1;
    if (!request) throw new Error('There is no request.');
    return request;
  };
}

/** @throws Error if a response is not exactly the expected one */
export async function load(
  nextRequest: NextRequest,
  options: { connections: number; seconds: number },
): Promise<Loaded> {
  const latencies: number[] = [];
  const startedAt = performance.now();
  const endsAt = startedAt + options.seconds * 1000;
  const faults: string[] = [];
  const sendAll = (connection: Connection, number: number) =>
    new Promise<void>((resolve) => {
      const sendNext = () => {
        const sentAt = performance.now();
        if (sentAt >= endsAt || faults.length > 0) return resolve();
        const request = nextRequest(number);
        connection.send(request, (response) => {
          latencies.push(performance.now() - sentAt);
          if (!isExpected(request, response))
            faults.push(response ? `${response.status} ${response.body}` : 'no complete response');
          sendNext();
        });
      };
      sendNext();
    });
  const connections = Array.from({ length: options.connections }, openConnection);
  await Promise.all(connections.map(sendAll));
  for (const connection of connections) connection.close();
  if (faults.length > 0) throw new Error(`Unexpected response at ${options.connections} connections: ${faults[0]}`);
  const seconds = (performance.now() - startedAt) / 1000;
  return { requests: latencies.length, seconds, p50: quantile(latencies, 0.5), p99: quantile(latencies, 0.99) };
}

/** Sends all requests at once, each on its own open connection. */
export async function burst(
  requests: readonly PreparedRequest[],
  warmUp: (request: PreparedRequest) => PreparedRequest,
): Promise<{ failed: number; milliseconds: number[] }> {
  const connections = requests.map(openConnection);
  const sendEach = (change: (request: PreparedRequest) => PreparedRequest) =>
    Promise.all(
      requests.map(async (original, index) => {
        const request = change(original);
        const sentAt = performance.now();
        const isGood = await new Promise<boolean>((resolve) =>
          connections[index]?.send(request, (response) => resolve(isExpected(request, response))),
        );
        return { isGood, milliseconds: performance.now() - sentAt };
      }),
    );
  await sendEach(warmUp);
  const responses = await sendEach((request) => request);
  for (const connection of connections) connection.close();
  return {
    failed: responses.filter((response) => !response.isGood).length,
    milliseconds: responses.map(({ milliseconds }) => milliseconds),
  };
}

export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export const median = (values: readonly number[]): number => quantile(values, 0.5);
