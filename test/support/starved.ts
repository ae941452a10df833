/** Tells the responses of a starved machine from those that a test is about. */

/** The process says that its storage or its turn comes too late, and has done nothing: the caller repeats the request. */
export function isStarved({ status, body }: { status: number; body: string }): boolean {
  return status === 503 && /"code":"(?:storage_unavailable|overloaded)"/.test(body);
}
