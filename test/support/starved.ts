/** Recognizes responses that only show that the machine is starved. */
import { setTimeout as sleep } from 'node:timers/promises';

interface Response {
  status: number;
  body: string;
}

const PAUSE_MILLISECONDS = 20;

/** Whether the process was overloaded or its storage too slow. It did nothing, so the request can be repeated. */
export function isStarved({ status, body }: Response): boolean {
  return status === 503 && /"code":"(?:storage_unavailable|overloaded)"/.test(body);
}

/** Repeats the request until the response is about the test. */
export async function repeatWhileStarved<T extends Response>(request: () => Promise<T>): Promise<T> {
  let response = await request();
  while (isStarved(response)) {
    await sleep(PAUSE_MILLISECONDS);
    response = await request();
  }
  return response;
}
