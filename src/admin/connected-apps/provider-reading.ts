/** Reads what a provider publishes while an administrator fills in the form of an app. */
import { ADVICE, inputFaults } from '../../config/input-faults.ts';
import { connectedAppSchema } from '../../connected-apps/connected-app.ts';
import type { ProviderFacts, ReadProviderFacts } from '../../connected-apps/provider-facts.ts';
import { type FormView, fieldFaults } from '../../pages/form.ts';
import type { FieldFault } from '../../pages/page-data.ts';
import { type changedAppForm, newAppForm } from './form.ts';

export type NewForm = FormView<typeof newAppForm>;
export type ChangedForm = FormView<typeof changedAppForm>;

/** The fields that say where the provider is. */
interface Address {
  id?: string;
  issuer: string;
  discoveryUrl: string;
}

const addressSchema = connectedAppSchema.pick({ id: true, issuer: true, discoveryUrl: true }).partial({ id: true });

export function createProviderReading({ readProvider }: { readProvider: ReadProviderFacts }) {
  const read = async ({
    id,
    issuer,
    discoveryUrl,
  }: Address): Promise<{ provider?: ProviderFacts; faults: readonly FieldFault[] }> => {
    const address = { issuer, discoveryUrl: discoveryUrl || undefined, id: id || undefined };
    const parsed = addressSchema.safeParse(address, ADVICE);
    if (!parsed.success) return { faults: fieldFaults({ schema: newAppForm }, inputFaults(parsed.error)) };
    const { facts: provider, fault } = await readProvider({ issuer, discoveryUrl: parsed.data.discoveryUrl });
    return provider ? { provider, faults: [] } : { faults: [{ field: 'issuer', text: fault }] };
  };

  return {
    /** The form with what the provider offers. A field that the administrator has changed stays. */
    async fill<F extends NewForm | ChangedForm>(typed: Omit<F, 'faults'>) {
      const { provider, faults } = await read(typed.values);
      const { tokenEndpointAuthMethod: method } = typed.values;
      const offered = provider && { isRead: 'yes', tokenEndpointAuthMethod: methodFor(method, provider) };
      return { ...typed, values: { ...typed.values, ...offered }, faults };
    },

    /** What the page showed of the provider before: it is shown again beside the form. */
    async shown({ values }: NewForm | ChangedForm): Promise<ProviderFacts | undefined> {
      return values.isRead === 'yes' ? (await read(values)).provider : undefined;
    },
  };
}

function methodFor(chosen: string, { authMethods }: ProviderFacts): string {
  if (authMethods.length === 0 || authMethods.includes(chosen)) return chosen;
  return ['client_secret_basic', 'client_secret_post'].find((method) => authMethods.includes(method)) ?? chosen;
}
