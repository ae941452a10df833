/** The error of a store that cannot answer now. After a write it does not say whether the write was done. */
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
