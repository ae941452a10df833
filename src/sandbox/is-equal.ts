/** Compares secrets in constant time. */
import { timingSafeEqual } from 'node:crypto';

export function isEqual(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}
