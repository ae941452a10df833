/** Reads the metadata of a provider for the form of an app. */
import { ADVICE, inputFaults } from '../../../shared/config/input-faults.ts';
import { fieldFaults } from '../../../shared/pages/form.ts';
import type { FieldFault } from '../../../shared/pages/page-data.ts';
import { connectedAppSchema } from '../../../shared/provider/connected-app.ts';
import type { ProviderFacts, ReadProviderFacts } from '../../connected-apps/provider-facts.ts';
import { enteredRegistration, newAppForm } from './form.ts';

type Values = Record<string, string | readonly string[]>;

/** The fields with the address of the provider and, for a new app, its id and name. */
const addressSchema = connectedAppSchema
  .pick({ id: true, name: true, issuer: true, discoveryUrl: true, endpoints: true })
  .partial({ id: true });

interface ReadResult {
  faults: readonly FieldFault[];
  facts?: ProviderFacts;
  /** The issuer in the metadata, if it differs from the entered one. */
  namedIssuer?: string | undefined;
}

export interface ProviderReading {
  /** Reads the metadata. Returns either `facts` or faults. */
  read(values: Values): Promise<ReadResult>;
  /** Checks the fields with the address of the provider, without a call. */
  addressFaults(values: Values): FieldFault[];
  /** Returns the chosen client authentication, or another one if the provider does not support it. */
  methodFor(chosenMethod: string, facts: ProviderFacts): string;
  /** Reads the metadata again if the form already shows it. */
  readAgain(form: { values: Values }): Promise<ProviderFacts | undefined>;
}

export function createProviderReading({ readProvider }: { readProvider: ReadProviderFacts }): ProviderReading {
  const addressIn = (values: Values) => {
    const { id, ...form } = newAppForm.parse({ id: '', initialAccessToken: '', ...values });
    return addressSchema.safeParse(
      { id: 'id' in values ? id : undefined, ...addressFields(enteredRegistration(form, [])) },
      ADVICE,
    );
  };

  const addressFaults = (values: Values): FieldFault[] => {
    const parsed = addressIn(values);
    return parsed.success ? [] : fieldFaults({ schema: newAppForm }, inputFaults(parsed.error));
  };

  const read = async (values: Values): Promise<ReadResult> => {
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
    readAgain: async ({ values }) => (values.isRead === 'yes' ? (await read(values)).facts : undefined),
  };
}

function addressFields(registration: Record<string, unknown>) {
  const { name, issuer, discoveryUrl, endpoints } = registration;
  return { name, issuer, discoveryUrl, endpoints };
}

function methodFor(chosenMethod: string, { authMethods }: ProviderFacts): string {
  if (authMethods.length === 0 || authMethods.includes(chosenMethod)) return chosenMethod;
  return ['client_secret_basic', 'client_secret_post'].find((method) => authMethods.includes(method)) ?? chosenMethod;
}
