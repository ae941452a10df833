/** The error of a store that does not respond. A write that fails with it may have been applied. */
import { AppError } from '../errors.ts';

export function unavailable(
  logDetail: string,
  options: { cause?: unknown; retryAfterSeconds?: number } = {},
): AppError {
  return new AppError('storage_unavailable', { logDetail, retryAfterSeconds: 1, ...options });
}

export function storeClosed(): AppError {
  return unavailable('The store was closed');
}
