/** Refuses headers that undici would refuse inside `dispatch`: its pool would never use that connection again. */
import { validateHeaderName, validateHeaderValue } from 'node:http';

/**
 * Origin and path need no check: they come from `new URL`.
 * @param headers alternating names and values
 * @throws TypeError that names the header, never its value
 */
export function assertSendable(headers: readonly string[]): void {
  for (let index = 0; index < headers.length; index += 2) {
    const [name = '', value = ''] = [headers[index], headers[index + 1]];
    validateHeaderName(name);
    validateHeaderValue(name, value);
  }
}
