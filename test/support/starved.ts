/** Tells the responses of a starved machine from those that a test is about. */
import { setTimeout as sleep } from 'node:timers/promises';

interface Response {
  status: number;
  body: string;
}

const PAUSE_MILLISECONDS = 20;

/** The process says that its storage or its turn comes too late, and has done nothing: the caller repeats the request. */
export function isStarved({ status, body }: Response): boolean {
  return status === 503 && /"code":"(?:storage_unavailable|overloaded)"/.test(body);
}

/** Repeats the request as that caller does. */
export async function repeatWhileStarved<T extends Response>(request: () => Promise<T>): Promise<T> {
  let response = await request();
  while (isStarved(response)) {
    await sleep(PAUSE_MILLISECONDS);
    response = await request();
  }
  return response;
}
