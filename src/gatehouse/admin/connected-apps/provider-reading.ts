/** Reads what a provider publishes while an administrator fills in the form of an app. */
import { ADVICE, inputFaults } from '../../../shared/config/input-faults.ts';
import { fieldFaults } from '../../../shared/pages/form.ts';
import type { FieldFault } from '../../../shared/pages/page-data.ts';
import { connectedAppSchema } from '../../../shared/provider/connected-app.ts';
import type { ProviderFacts, ReadProviderFacts } from '../../connected-apps/provider-facts.ts';
import { newAppForm, registrationOf } from './form.ts';

type Values = Record<string, string | readonly string[]>;

/** The fields that say where the provider is, and in the form of a new app how it is called here. */
const addressSchema = connectedAppSchema
  .pick({ id: true, name: true, issuer: true, discoveryUrl: true, endpoints: true })
  .partial({ id: true });

export type ProviderReading = ReturnType<typeof createProviderReading>;

type Read = { faults: readonly FieldFault[]; facts?: ProviderFacts; namedIssuer?: string | undefined };

export function createProviderReading({ readProvider }: { readProvider: ReadProviderFacts }) {
  const addressIn = (values: Values) => {
    const { id, ...form } = newAppForm.parse({ id: '', initialAccessToken: '', ...values });
    return addressSchema.safeParse({ id: 'id' in values ? id : undefined, ...pick(registrationOf(form, [])) }, ADVICE);
  };

  const addressFaults = (values: Values): FieldFault[] => {
    const parsed = addressIn(values);
    return parsed.success ? [] : fieldFaults({ schema: newAppForm }, inputFaults(parsed.error));
  };

  const read = async (values: Values): Promise<Read> => {
    const parsed = addressIn(values);
    if (!parsed.success) return { faults: addressFaults(values) };
    const { issuer, discoveryUrl, endpoints } = parsed.data;
    const { facts, fault, issuer: namedIssuer } = await readProvider({ issuer, discoveryUrl, endpoints });
    return facts ? { facts, faults: [] } : { faults: [{ field: 'issuer', text: fault }], namedIssuer };
  };

  return {
    read,
    addressFaults,
    methodFor,

    /** What the page showed of the provider before: it is shown again beside the form. */
    async shown({ values }: { values: Values }): Promise<ProviderFacts | undefined> {
      return values.isRead === 'yes' ? (await read(values)).facts : undefined;
    },
  };
}

function pick(registration: Record<string, unknown>) {
  const { name, issuer, discoveryUrl, endpoints } = registration;
  return { name, issuer, discoveryUrl, endpoints };
}

function methodFor(chosen: string, { authMethods }: ProviderFacts): string {
  if (authMethods.length === 0 || authMethods.includes(chosen)) return chosen;
  return ['client_secret_basic', 'client_secret_post'].find((method) => authMethods.includes(method)) ?? chosen;
}
