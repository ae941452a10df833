/** Outgoing calls without a share for services: for tests in which no service takes part. */
import type { Outbound } from '../../src/shared/outbound/outbound.ts';

export const NO_SHARE: Pick<Outbound, 'serve'> = { serve: (_host, _service, work) => work() };
