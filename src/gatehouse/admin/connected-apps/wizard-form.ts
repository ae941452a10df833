/** The form that registers an app: its steps, presets, and the placeholders of presets. */
import { z } from 'zod';
import type { FormValues, FormView } from '../../../shared/pages/form.ts';
import type { FieldFault } from '../../../shared/pages/page-data.ts';
import { uncapitalised } from '../../../shared/text.ts';
import { type Preset, presetApp } from '../../connected-apps/presets.ts';
import type { ProviderFacts } from '../../connected-apps/provider-facts.ts';
import { APP_INPUTS, APP_SECRETS, newAppForm, tidied, valuesOfApp } from './form.ts';

const STEPS = ['provider', 'registration'] as const;
export type StepName = (typeof STEPS)[number];

/** The fields of both steps. Each step has the fields of the other one as hidden fields, except secrets. */
const wizardForm = newAppForm.extend({
  step: z.string(),
  /** The values for the remaining placeholders of the preset, in order. */
  placeholder: z.array(z.string().trim()),
});

export type WizardForm = FormView<typeof wizardForm> & {
  provider?: ProviderFacts | undefined;
  /** The issuer in the metadata, if it differs from the entered one. */
  namedIssuer?: string | undefined;
  /** True if the metadata could not be read, so that the endpoints can be entered by hand. */
  isUnread?: boolean;
};

export interface Placeholder {
  name: string;
  title: string;
  example: string;
}

export const WIZARD_FORM = {
  schema: wizardForm,
  secrets: APP_SECRETS,
  fieldOf: APP_INPUTS,
  tidy: tidied<FormValues<typeof wizardForm>>,
};

/** The fields of the first step, some of which the second has, too. A fault of any other field shows the second. */
const FIRST_STEP_FIELDS = ['id', 'name', 'issuer', 'discoveryUrl', 'placeholder'];
const FIELDS_OF_BOTH = ['discoveryUrl'];

/** Returns the empty form, or the form with the values of a preset. */
export function newForm(preset: Preset | undefined): WizardForm {
  const app = preset && { id: preset.id, name: preset.name, ...presetApp(preset) };
  return { values: { ...valuesOfApp(app), step: 'provider', placeholder: [] }, faults: [] };
}

/** Returns an id from the name, or '' if the name has no characters that an id may have. */
export function idFrom(name: string): string {
  const words = name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/\p{M}/gu, '')
    .match(/[a-z0-9]+/g);
  return (words ?? []).join('-').slice(0, 40).replace(/-$/, '');
}

export function stepOf({ values, faults }: WizardForm): StepName {
  const isSecondStep = values.step === 'registration';
  if (faults.length === 0) return isSecondStep ? 'registration' : 'provider';
  const isOfFirstStep = faults.some(
    ({ field }) =>
      FIRST_STEP_FIELDS.includes(field.replace(/-\d+$/, '')) && !(isSecondStep && FIELDS_OF_BOTH.includes(field)),
  );
  return isOfFirstStep ? 'provider' : 'registration';
}

type Values = WizardForm['values'];

/** Returns the placeholders that still occur as `{NAME}` in a field. */
export function openPlaceholders(preset: Preset | undefined, values: Values): Placeholder[] {
  const text = JSON.stringify(values);
  return Object.entries(preset?.placeholders ?? {})
    .filter(([name]) => text.includes(`{${name}}`))
    .map(([name, { title, example }]) => ({ name, title, example }));
}

/** Replaces the preset's placeholders in all fields by the entered values. */
export function withPlaceholders(preset: Preset | undefined, values: Values): { values: Values; faults: FieldFault[] } {
  const placeholders = openPlaceholders(preset, values);
  const entered = new Map(placeholders.map(({ name }, index) => [name, values.placeholder[index] ?? '']));
  const faults = placeholders.flatMap(({ name, title }, index) =>
    entered.get(name) === '' ? [{ field: `placeholder-${index}`, text: `Enter ${uncapitalised(title)}.` }] : [],
  );
  if (faults.length > 0) return { values, faults };
  const fill = (text: string) => text.replace(/\{(\w+)\}/g, (whole, name: string) => entered.get(name) ?? whole);
  const filledEntries = Object.entries(values).map(([field, value]) => [
    field,
    typeof value === 'string' ? fill(value) : value.map(fill),
  ]);
  return { values: { ...(Object.fromEntries(filledEntries) as Values), placeholder: [] }, faults };
}
