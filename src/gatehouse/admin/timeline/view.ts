/** The JSON of a timeline. */
import { z } from 'zod';
import { listOf, pageQuery } from '../../../shared/http/list-schema.ts';
import { ACTIVITIES } from '../../audit/activity.ts';

const named = z.object({ id: z.string(), name: z.string().nullable() });

export const timelineQuery = pageQuery.extend({
  kind: z
    .enum(ACTIVITIES)
    .optional()
    .describe('only this kind; relay: sums by the hour; changes: actions of administrators'),
});

const timelineItemJson = z.object({
  id: z.string().describe('unique within this timeline'),
  at: z.iso.datetime(),
  until: z.iso.datetime().nullable().describe('the end of the hour of a sum'),
  kind: z.enum(ACTIVITIES),
  event: z
    .string()
    .describe('an event of the audit trail; relay.calls or relay.calls_refused for a sum; or sign_in.open'),
  text: z.string().describe('the event as a sentence with names'),
  actor: z
    .object({
      kind: z.string(),
      id: z.string().nullable(),
      name: z.string().nullable(),
      path: z.string().nullable().describe('the path of its page, below the public address; null if there is none'),
    })
    .nullable(),
  user: named.nullable().describe('the user concerned; the name is null once the user is deleted'),
  app: named.nullable(),
  address: z.string().nullable(),
  calls: z.int().nullable().describe('the number of calls in a sum'),
  signInId: z.string().nullable().describe('the sign-in, until its record expires'),
  details: z.record(z.string(), z.string()),
});

export const timelineJson = listOf(timelineItemJson).extend({
  searchedTo: z.iso
    .datetime()
    .optional()
    .describe('set if the search ended early: continue with "next" to search older entries'),
});

export type TimelineItem = z.output<typeof timelineItemJson>;
export type TimelinePage = z.output<typeof timelineJson>;
export type TimelineQuery = z.output<typeof timelineQuery>;
