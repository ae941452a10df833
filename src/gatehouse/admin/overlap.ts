/** For how long the previous secret stays valid after a rotation, in the JSON API and in forms. */
import { z } from 'zod';
import { wholeNumber } from '../../shared/pages/form.ts';

const MAX_OVERLAP_HOURS = 720;

/** @param otherwise where the request names none */
export const rotationOf = (otherwise: number) =>
  z.strictObject({
    overlapSeconds: z
      .int()
      .min(0)
      .max(MAX_OVERLAP_HOURS * 3_600)
      .default(otherwise)
      .describe('how long the previous secret stays valid'),
  });

const HOURS = `Enter a whole number of hours from 0 to ${MAX_OVERLAP_HOURS}.`;

export const rotationForm = z.object({ overlapHours: wholeNumber(0, MAX_OVERLAP_HOURS, HOURS) });
