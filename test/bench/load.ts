/** Generates load: connections that send requests without pauses, or all at once. */
import { type Connection, isGood, openConnection, type Question } from './connection.ts';

export interface Loaded {
  requests: number;
  seconds: number;
  /** Milliseconds, like `p99`. */
  p50: number;
  p99: number;
}

/** Returns the next request of a connection, which always goes to the same server. */
export type Questions = (connection: number) => Question;

/** Returns the requests of a list in turn, repeatedly. */
export function inTurn(questions: readonly Question[]): Questions {
  let at = 0;
  return () => {
    const question = questions[at % questions.length];
    at += 1;
    if (!question) throw new Error('There is no question.');
    return question;
  };
}

/** @throws Error if a response is not exactly the expected one */
export async function load(next: Questions, options: { connections: number; seconds: number }): Promise<Loaded> {
  const latencies: number[] = [];
  const startedAt = performance.now();
  const until = startedAt + options.seconds * 1000;
  const faults: string[] = [];
  const sendAll = (connection: Connection, number: number) =>
    new Promise<void>((resolve) => {
      const step = () => {
        const sentAt = performance.now();
        if (sentAt >= until || faults.length > 0) return resolve();
        const question = next(number);
        connection.ask(question, (response) => {
          latencies.push(performance.now() - sentAt);
          if (!isGood(question, response)) faults.push(response ? `${response.status} ${response.body}` : 'broken off');
          step();
        });
      };
      step();
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
  questions: readonly Question[],
  warmUp: (question: Question) => Question,
): Promise<{ failed: number; milliseconds: number[] }> {
  const connections = questions.map(openConnection);
  const sendEach = (change: (question: Question) => Question) =>
    Promise.all(
      questions.map(async (original, at) => {
        const question = change(original);
        const sentAt = performance.now();
        const good = await new Promise<boolean>((resolve) =>
          connections[at]?.ask(question, (response) => resolve(isGood(question, response))),
        );
        return { good, milliseconds: performance.now() - sentAt };
      }),
    );
  await sendEach(warmUp);
  const responses = await sendEach((question) => question);
  for (const connection of connections) connection.close();
  return {
    failed: responses.filter(({ good }) => !good).length,
    milliseconds: responses.map(({ milliseconds }) => milliseconds),
  };
}

export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export const median = (values: readonly number[]): number => quantile(values, 0.5);
