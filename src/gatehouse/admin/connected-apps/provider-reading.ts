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

interface Read {
  faults: readonly FieldFault[];
  facts?: ProviderFacts;
  /** The issuer that the provider names in place of the one that was entered. */
  namedIssuer?: string | undefined;
}

export interface ProviderReading {
  /** `facts` are there unless there are faults. */
  read(values: Values): Promise<Read>;
  /** Of the fields that say where the provider is; makes no call. */
  addressFaults(values: Values): FieldFault[];
  /** The client authentication that was chosen, or one that the provider offers. */
  methodFor(chosen: string, facts: ProviderFacts): string;
  /** What the page showed of the provider before: it is shown again beside the form. */
  shown(form: { values: Values }): Promise<ProviderFacts | undefined>;
}

export function createProviderReading({ readProvider }: { readProvider: ReadProviderFacts }): ProviderReading {
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
    shown: async ({ values }) => (values.isRead === 'yes' ? (await read(values)).facts : undefined),
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
