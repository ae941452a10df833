/** The form in which an app is registered: its steps, what a preset fills in, and the preset's placeholders. */
import { z } from 'zod';
import type { FormView } from '../../../shared/pages/form.ts';
import type { FieldFault } from '../../../shared/pages/page-data.ts';
import { uncapitalised } from '../../../shared/text.ts';
import { type Preset, presetApp } from '../../connected-apps/presets.ts';
import type { ProviderFacts } from '../../connected-apps/provider-facts.ts';
import { APP_FIELDS, APP_SECRETS, newAppForm, valuesOfApp } from './form.ts';

const STEPS = ['provider', 'registration'] as const;
export type StepName = (typeof STEPS)[number];

/** The form carries what is typed in one step through the other, except secrets. */
const wizardForm = newAppForm.extend({
  step: z.string(),
  /** The values of the preset's placeholders that the form still has, in their order. */
  placeholder: z.array(z.string().trim()),
});

export type WizardForm = FormView<typeof wizardForm> & {
  provider?: ProviderFacts | undefined;
  /** The issuer that the provider names in place of the one that was entered. */
  namedIssuer?: string | undefined;
  /** The provider could not be read, so its endpoints can be entered by hand. */
  isUnread?: boolean;
};

export interface Placeholder {
  name: string;
  title: string;
  example: string;
}

export const WIZARD_FORM = { schema: wizardForm, secrets: APP_SECRETS, fieldOf: APP_FIELDS };

/** The fields of the first step; a fault of any other shows the second. */
const FIRST_FIELDS = ['id', 'name', 'issuer', 'discoveryUrl', 'placeholder'];

/** Empty, or with what a preset knows. */
export function newForm(preset: Preset | undefined): WizardForm {
  const known = preset && { id: preset.id, name: preset.name, ...presetApp(preset) };
  return { values: { ...valuesOfApp(known), step: 'provider', placeholder: [] }, faults: [] };
}

/** Empty where the name has nothing that an id may have. */
export function idFrom(name: string): string {
  const words = name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/\p{M}/gu, '')
    .match(/[a-z0-9]+/g);
  return (words ?? []).join('-').slice(0, 40).replace(/-$/, '');
}

export function stepOf({ values, faults }: WizardForm): StepName {
  const [first] = faults;
  if (first === undefined) return values.step === 'registration' ? 'registration' : 'provider';
  const isOfFirst = faults.some(({ field }) => FIRST_FIELDS.includes(field.replace(/-\d+$/, '')));
  return isOfFirst ? 'provider' : 'registration';
}

type Values = WizardForm['values'];

/** Those that are still written as `{NAME}` in a field. */
export function openPlaceholders(preset: Preset | undefined, values: Values): Placeholder[] {
  const text = JSON.stringify(values);
  return Object.entries(preset?.placeholders ?? {})
    .filter(([name]) => text.includes(`{${name}}`))
    .map(([name, { title, example }]) => ({ name, title, example }));
}

/** Writes what was typed for the preset's placeholders into the fields that hold them. */
export function withPlaceholders(preset: Preset | undefined, values: Values): { values: Values; faults: FieldFault[] } {
  const open = openPlaceholders(preset, values);
  const typed = new Map(open.map(({ name }, place) => [name, values.placeholder[place] ?? '']));
  const faults = open.flatMap(({ name, title }, place) =>
    typed.get(name) === '' ? [{ field: `placeholder-${place}`, text: `Enter ${uncapitalised(title)}.` }] : [],
  );
  if (faults.length > 0) return { values, faults };
  const fill = (text: string) => text.replace(/\{(\w+)\}/g, (whole, name: string) => typed.get(name) ?? whole);
  const filled = Object.entries(values).map(([field, value]) => [
    field,
    typeof value === 'string' ? fill(value) : value.map(fill),
  ]);
  return { values: { ...(Object.fromEntries(filled) as Values), placeholder: [] }, faults };
}
