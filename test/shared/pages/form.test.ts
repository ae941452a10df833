/** Forms as a browser sends them: the values of their fields, and where faults appear. */
import type { Request, Response } from 'express';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { AppError, type AppErrorOptions, type ProblemCode } from '../../../src/shared/errors.ts';
import {
  FormConflict,
  FormQuestion,
  faultsOfRow,
  formHandler,
  lines,
  rows,
  submittedValues,
  ticked,
  wholeNumber,
  words,
} from '../../../src/shared/pages/form.ts';

describe('a field', () => {
  test.each([
    ['lines with the line ends of browsers', lines, 'one\r\n two words \r\n\r\nthree', ['one', 'two words', 'three']],
    ['lines with the line ends of programs', lines, 'one\ntwo\n', ['one', 'two']],
    ['words', words, ' one, two\tthree,,\r\nfour ', ['one', 'two', 'three', 'four']],
    ['words: none', words, ' ,\n', []],
    ['a ticked box', ticked, 'yes', true],
    ['a box that is not ticked', ticked, '', false],
    ['rows', rows, [' one ', 'two'], ['one', 'two']],
  ])('%s', (_name, schema: z.ZodType, submitted, value) => {
    expect(schema.parse(submitted)).toEqual(value);
  });

  test('a whole number must be within its limits and consist of digits', () => {
    const schema = wholeNumber(2, 30, 'From 2 to 30.');
    for (const valid of ['2', ' 30 ', '007']) expect(schema.parse(valid)).toBe(Number(valid));
    for (const invalid of ['1', '31', '', '2.5', '1e1', '-2', '0x2', 'x2', '2x', '0000000002']) {
      const { success, error } = schema.safeParse(invalid);
      expect([invalid, success, error?.issues[0]?.message]).toEqual([invalid, false, 'From 2 to 30.']);
    }
  });
});

const FORM = {
  schema: z.object({
    name: z.string().min(1, 'Enter a name.'),
    urls: rows,
    hosts: words.pipe(z.array(z.string().min(2, 'Longer.'))),
    secret: z.string(),
    days: z.string(),
    version: z.string(),
  }),
  secrets: ['secret'] as const,
  fieldOf: { expiresAt: 'days', 'limits/day': 'days' } as const,
};
const SUBMITTED = { name: 'n', urls: ['a', ' ', 'b'], hosts: 'aa', secret: 's', days: '1', version: '7' };
const VALUES = { ...SUBMITTED, urls: ['a', 'b'], secret: '' };

/** @returns the status and the form that are shown, or the redirect if the work succeeds */
async function send(body: object, fail?: () => AppError) {
  const shown: unknown[] = [];
  const handler = formHandler({
    ...FORM,
    pages: {
      redirectAfter: async (_req, _res, work) => void shown.push(await work()),
      redirectToForm: async (_req, _res, url, { status, form }) => void shown.push(status, form, url),
    },
    async work() {
      if (fail) throw fail();
      return { url: '/done', flash: {} };
    },
    page: (_req, form) => ({ url: '/form', form }),
  });
  await handler({ body } as Request, {} as Response, () => undefined);
  return shown;
}
const refusal = (code: ProblemCode, options: AppErrorOptions) => () => new AppError(code, options);
const faultsAt = (...pointers: string[]) =>
  refusal('invalid_request', {
    faults: pointers.map((pointer, index) => ({ pointer, rule: `r${index}`, detail: `d${index}` })),
  });
const faultsOf = (shown: unknown[]) => (shown[1] as { faults: unknown[] }).faults;

describe('a form', () => {
  test('that is valid does its work and redirects', async () => {
    expect(await send(SUBMITTED)).toEqual([{ url: '/done', flash: {} }]);
  });

  test('with faults is shown again with its values, but without its secrets', async () => {
    expect(await send({ ...SUBMITTED, name: '', hosts: 'aa,b c' })).toEqual([
      400,
      {
        values: { ...VALUES, name: '', hosts: 'aa,b c' },
        dropped: ['secret'],
        faults: [
          { field: 'name', text: 'Enter a name.' },
          { field: 'hosts', text: 'Entry 2: Longer.' },
          { field: 'hosts', text: 'Entry 3: Longer.' },
        ],
      },
      '/form',
    ]);
    const emptyValues = { name: '', urls: [], hosts: '', secret: '', days: '', version: '' };
    expect(await send({})).toMatchObject([400, { values: emptyValues, dropped: [] }, '/form']);
    expect(submittedValues(FORM, SUBMITTED)).toEqual({ values: VALUES, dropped: ['secret'] });
  });

  test('shows one fault per field, and all faults of the form', async () => {
    const shown = await send(
      SUBMITTED,
      faultsAt('#/days', '#/urls/1', '#/urls/1', '#/nowhere', '#/name', '#/name', '#'),
    );
    expect(shown[0]).toBe(400);
    expect(faultsOf(shown)).toEqual([
      { field: 'days', text: 'd0' },
      { field: 'urls-1', text: 'd1' },
      { field: '', text: 'd3' },
      { field: 'name', text: 'd4' },
      { field: '', text: 'd6' },
    ]);
  });

  test('shows a fault under another name or path next to its field', async () => {
    expect(faultsOf(await send(SUBMITTED, faultsAt('#/expiresAt')))).toEqual([{ field: 'days', text: 'd0' }]);
    expect(faultsOf(await send(SUBMITTED, faultsAt('#/limits/day')))).toEqual([{ field: 'days', text: 'd0' }]);
    expect(faultsOf(await send(SUBMITTED, faultsAt('#/limits/hour')))).toEqual([{ field: '', text: 'd0' }]);
  });

  test('shows at most ten faults of a long list', async () => {
    const hosts = Array.from({ length: 30 }, () => 'x').join('\n');
    expect(faultsOf(await send({ ...SUBMITTED, hosts }))).toHaveLength(10);
  });

  test('shows faults that belong to no field at the top', async () => {
    const sentTwice = await send(SUBMITTED, refusal('invalid_request', { detail: 'This form was sent twice.' }));
    expect(sentTwice).toMatchObject([400, { faults: [{ field: '', text: 'This form was sent twice.' }] }, '/form']);
    const [fault] = faultsOf(await send(SUBMITTED, refusal('invalid_request', {})));
    expect(fault).toEqual({ field: '', text: 'Check what you entered and try again.' });
  });

  test('that others change at the same time says so, or what the work says', async () => {
    const form = { values: VALUES, dropped: ['secret'] };
    expect(await send(SUBMITTED, refusal('version_conflict', {}))).toEqual([
      ...[409, { ...form, faults: [{ field: '', text: expect.stringMatching(/at the same time. Save again/) }] }],
      '/form',
    ]);
    expect(faultsOf(await send(SUBMITTED, refusal('version_conflict', { detail: 'Upload it again.' })))).toEqual([
      { field: '', text: 'Upload it again.' },
    ]);
  });

  test('R146 that others changed meanwhile is shown with the merged values', async () => {
    const faults = ['#/days', '#/urls/1', '#'].map((pointer) => ({ pointer, rule: 'r', detail: `at ${pointer}` }));
    expect(await send(SUBMITTED, () => new FormConflict({ name: 'merged', version: '8' }, faults))).toEqual([
      409,
      {
        values: { ...VALUES, name: 'merged', version: '8' },
        dropped: ['secret'],
        faults: [
          { field: 'days', text: 'at #/days', isConflict: true },
          { field: 'urls-1', text: 'at #/urls/1', isConflict: true },
          { field: '', text: 'at #', isConflict: true },
        ],
      },
      '/form',
    ]);
  });

  test('that asks before it saves is shown with the question, which is no fault', async () => {
    const question = { text: 'Save?', field: 'days' };
    expect(await send(SUBMITTED, () => new FormQuestion('nine days', question))).toEqual([
      ...[200, { values: { ...VALUES, confirmed: 'nine days' }, dropped: ['secret'], faults: [], question }, '/form'],
    ]);
  });

  test('leaves other failures to the error page', async () => {
    for (const code of ['not_found', 'storage_unavailable'] as const) {
      await expect(send(SUBMITTED, refusal(code, {}))).rejects.toMatchObject({ code });
    }
    const bug = new TypeError('a bug');
    await expect(send(SUBMITTED, () => bug as unknown as AppError)).rejects.toBe(bug);
  });
});

test('faults of a form in a row have the id of the row in their field, except for faults of the form', () => {
  const faults = [
    { field: 'apiToken', text: 'a' },
    { field: '', text: 'b' },
  ];
  expect(faultsOfRow(faults, 'sa1')).toEqual([
    { field: 'apiToken-sa1', text: 'a' },
    { field: '', text: 'b' },
  ]);
});
