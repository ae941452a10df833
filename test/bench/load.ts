/** The load: connections that send requests without a pause, or all at once. Returns times and results. */
import { type Connection, isGood, openConnection, type Question } from './connection.ts';

export interface Loaded {
  requests: number;
  seconds: number;
  /** Milliseconds, like `p99`. */
  p50: number;
  p99: number;
}

/** Gives the question that comes next on that connection, which always goes to the same server. */
export type Questions = (connection: number) => Question;

/** Over and over the same question, or one after the other of a list. */
export function inTurn(questions: readonly Question[]): Questions {
  let at = 0;
  return () => {
    const question = questions[at % questions.length];
    at += 1;
    if (!question) throw new Error('There is no question.');
    return question;
  };
}

/** @throws Error where one answer is not the one that is expected, to the byte */
export async function load(next: Questions, options: { connections: number; seconds: number }): Promise<Loaded> {
  const latencies: number[] = [];
  const startedAt = performance.now();
  const until = startedAt + options.seconds * 1000;
  const wrong: string[] = [];
  const one = (connection: Connection, number: number) =>
    new Promise<void>((resolve) => {
      const step = () => {
        const askedAt = performance.now();
        if (askedAt >= until || wrong.length > 0) return resolve();
        const question = next(number);
        connection.ask(question, (answer) => {
          latencies.push(performance.now() - askedAt);
          if (!isGood(question, answer)) wrong.push(answer ? `${answer.status} ${answer.body}` : 'broken off');
          step();
        });
      };
      step();
    });
  const connections = Array.from({ length: options.connections }, openConnection);
  await Promise.all(connections.map(one));
  for (const connection of connections) connection.close();
  if (wrong.length > 0) throw new Error(`A wrong answer at ${options.connections} connections: ${wrong[0]}`);
  const seconds = (performance.now() - startedAt) / 1000;
  return { requests: latencies.length, seconds, p50: quantile(latencies, 0.5), p99: quantile(latencies, 0.99) };
}

/** Every question at the same moment, each on a connection of its own that is open already. */
export async function burst(
  questions: readonly Question[],
  warmUp: (question: Question) => Question,
): Promise<{ failed: number; milliseconds: number[] }> {
  const connections = questions.map(openConnection);
  const askAll = (change: (question: Question) => Question) =>
    Promise.all(
      questions.map(async (given, at) => {
        const question = change(given);
        const askedAt = performance.now();
        const good = await new Promise<boolean>((resolve) =>
          connections[at]?.ask(question, (answer) => resolve(isGood(question, answer))),
        );
        return { good, milliseconds: performance.now() - askedAt };
      }),
    );
  await askAll(warmUp);
  const answers = await askAll((question) => question);
  for (const connection of connections) connection.close();
  return {
    failed: answers.filter(({ good }) => !good).length,
    milliseconds: answers.map(({ milliseconds }) => milliseconds),
  };
}

export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export const median = (values: readonly number[]): number => quantile(values, 0.5);
