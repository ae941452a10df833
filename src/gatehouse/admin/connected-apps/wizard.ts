/** Registers an app in two steps: the provider, then the registration. Afterwards, its check shows whether it works. */
import type { NextFunction, Request, Response } from 'express';
import { formField, queryField } from '../../../shared/http/body.ts';
import { parseInput } from '../../../shared/http/operation.ts';
import { formHandler, submittedValues } from '../../../shared/pages/form.ts';
import type { FieldFault } from '../../../shared/pages/page-data.ts';
import { type ConnectedApp, callbackUrlOf, isUsable, providerUrls } from '../../../shared/provider/connected-app.ts';
import { PRESETS, type Preset, presetLimits, signsIn } from '../../connected-apps/presets.ts';
import type { ProviderFacts } from '../../connected-apps/provider-facts.ts';
import type { AdminPageData, AdminPages, PageRequest } from '../page.ts';
import type { ConnectedAppChanges } from './changes.ts';
import { type CheckNow, checkPage } from './check.ts';
import { DRAWN_FIELDS, type DrawnField } from './drawn-fields.ts';
import { enteredRegistration, isId } from './form.ts';
import { NOTICES } from './notices.ts';
import type { ProviderReading } from './provider-reading.ts';
import { appToRegister, type RegisterAtProvider } from './provider-registration.ts';
import { newApp } from './view.ts';
import {
  idFrom,
  newForm,
  openPlaceholders,
  type Placeholder,
  type StepName,
  stepOf,
  WIZARD_FORM,
  type WizardForm,
  withPlaceholders,
} from './wizard-form.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/connected-apps/register': AdminPageData & {
      step: StepName;
      form: WizardForm;
      drawn: readonly DrawnField[];
      /** `field`: the provider's name of the field for the URL, if it is known. */
      urls: { label: string; url: string; field: string | undefined }[];
      /** The presets of providers by name. */
      presets: readonly { id: string; name: string; canSignIn: boolean }[];
      preset: (Preset & { limits: readonly string[] }) | undefined;
      placeholders: readonly Placeholder[];
    };
  }
}

export function connectedAppWizard(parts: {
  changes: ConnectedAppChanges;
  checkNow: CheckNow;
  registerAtProvider: RegisterAtProvider;
  provider: ProviderReading;
  pages: AdminPages;
  publicHref: string;
  basePath: string;
}) {
  const { changes, checkNow, registerAtProvider, provider, pages, publicHref, basePath } = parts;
  const presetOf = (req: Request) => PRESETS.find(({ id }) => id === queryField(req, 'preset'));

  const page = pages.page(
    'admin/connected-apps/register',
    async ({ req, form: submitted }: PageRequest<WizardForm>) => {
      const preset = presetOf(req);
      const form = submitted ?? newForm(preset);
      const step = stepOf(form);
      const facts = form.provider ?? (step === 'registration' ? await provider.readAgain(form) : undefined);
      return {
        title: 'Register an app',
        faults: form.faults,
        step,
        form: { ...form, provider: facts },
        drawn: DRAWN_FIELDS,
        urls: step === 'registration' ? urlsFor({ id: form.values.id, facts, preset, publicHref }) : [],
        presets: PRESET_NAMES,
        preset: preset && { ...preset, limits: presetLimits(preset) },
        placeholders: openPlaceholders(preset, form.values),
      };
    },
  );

  const urlOf = (req: Request): string => {
    const preset = presetOf(req);
    return `${basePath}/admin/register-app${preset ? `?preset=${preset.id}` : ''}`;
  };

  const showStep = (req: Request, res: Response, form: WizardForm) =>
    pages.redirectToForm(req, res, urlOf(req), { status: form.faults.length > 0 ? 400 : 200, form });

  /** Returns the URLs with that of this Gatehouse for the id of the app, which is added only to an empty list. */
  const withGatehouseUrl = (id: string, urls: readonly string[]): readonly string[] => {
    const callbackUrl = callbackUrlOf(isId(id) ? id : 'id', publicHref);
    const isGatehouseUrl = (url: string) => {
      const appId = url.slice(callbackUrlOf('', publicHref).length);
      return isId(appId) && url === callbackUrlOf(appId, publicHref);
    };
    return urls.length === 0
      ? [callbackUrl]
      : [...new Set(urls.map((url) => (isGatehouseUrl(url) ? callbackUrl : url)))];
  };

  const create = formHandler({
    ...WIZARD_FORM,
    pages,
    async work(req, { id, initialAccessToken: token, step: _, placeholder: __, ...form }) {
      const { clientId, clientSecret, ...registration } = enteredRegistration(
        form,
        withGatehouseUrl(id, form.callbackUrl),
      );
      const isAtProvider = formField(req.body, 'do') === 'register_there';
      const { app } = isAtProvider
        ? await registerAtProvider(
            req,
            parseInput(appToRegister, { ...registration, id, initialAccessToken: token || undefined }),
          )
        : await changes.create(req, parseInput(newApp, { ...registration, id, clientId, clientSecret }));
      // The app is registered even if its check fails.
      await checkNow(req, app).catch(() => undefined);
      return { url: `${checkPage(basePath, app.id)}?registered=yes`, flash: { notice: noticeOf(app, isAtProvider) } };
    },
    page: (req, form) => page.at(urlOf(req), form),
  });

  const noticeOf = (app: ConnectedApp, isAtProvider: boolean) => {
    if (!isUsable(app, publicHref)) return NOTICES.registered_unusable;
    return isAtProvider ? NOTICES.registered_there : NOTICES.registered;
  };

  /** Returns the form of the second step, or of the first step with faults. */
  const nextStep = async (req: Request, action: string | undefined): Promise<WizardForm> => {
    const submitted = submittedValues(WIZARD_FORM, req.body);
    const filledForm = withPlaceholders(presetOf(req), submitted.values);
    const id = filledForm.values.id || idFrom(filledForm.values.name);
    const form = { ...submitted, values: { ...filledForm.values, id, step: 'provider', isRead: '' } };
    const idFaults = isId(id) && (await changes.isTaken(id)) ? [TAKEN] : [];
    // The issuer is not checked while it contains a placeholder.
    const addressFaults = provider
      .addressFaults(form.values)
      .filter(({ field }) => filledForm.faults.length === 0 || field !== 'issuer');
    const faults = [...idFaults, ...withUnderivedId(form.values, addressFaults), ...filledForm.faults];
    const isReady = faults.length === 0;
    if (isReady && action === 'by_hand') return secondStep(form);
    const readResult = isReady || idFaults.length > 0 ? await provider.read(form.values) : undefined;
    if (isReady && action === 'use_issuer' && readResult?.namedIssuer !== undefined) {
      const correctedForm = { ...form, values: { ...form.values, issuer: readResult.namedIssuer } };
      const secondResult = await provider.read(correctedForm.values);
      return secondResult.facts
        ? secondStep(correctedForm, secondResult.facts)
        : firstStep(correctedForm, secondResult);
    }
    if (isReady && readResult?.facts) return secondStep(form, readResult.facts);
    return firstStep(form, { ...readResult, faults: [...faults, ...(readResult?.faults ?? [])] });
  };

  const secondStep = (form: Omit<WizardForm, 'faults'>, facts?: ProviderFacts): WizardForm => {
    const { id, callbackUrl, tokenEndpointAuthMethod: method } = form.values;
    const fromProvider = facts && { isRead: 'yes', tokenEndpointAuthMethod: provider.methodFor(method, facts) };
    const callbackUrls = withGatehouseUrl(id, callbackUrl);
    const values = { ...form.values, ...fromProvider, step: 'registration', callbackUrl: callbackUrls };
    return { ...form, values, provider: facts, faults: [] };
  };

  return {
    page: page.handler,

    async submit(req: Request, res: Response, next: NextFunction) {
      const action = formField(req.body, 'do');
      if (action === 'save' || action === 'register_there') return create(req, res, next);
      if (action === 'back') {
        const submitted = submittedValues(WIZARD_FORM, req.body);
        return showStep(req, res, { ...submitted, values: { ...submitted.values, step: 'provider' }, faults: [] });
      }
      return showStep(req, res, await nextStep(req, action));
    },
  };
}

const PRESET_NAMES = PRESETS.map((preset) => ({
  id: preset.id,
  name: preset.name,
  canSignIn: signsIn(preset),
})).toSorted((left, right) => left.name.localeCompare(right.name, 'en'));
/** An id is derived from the name: a missing name is the only fault, and a name without letters for an id needs one. */
function withUnderivedId({ id, name }: WizardForm['values'], faults: readonly FieldFault[]): FieldFault[] {
  if (id !== '') return [...faults];
  const others = faults.filter(({ field }) => field !== 'id');
  return name === '' ? others : [...others, UNDERIVED];
}

const UNDERIVED: FieldFault = { field: 'id', text: 'Enter an ID: the name has no letters a to z and no digits.' };
const TAKEN: FieldFault = { field: 'id', text: 'Another app has this id. Choose another one.' };

function firstStep(
  form: Omit<WizardForm, 'faults'>,
  { faults, namedIssuer }: { faults: readonly FieldFault[]; namedIssuer?: string | undefined },
): WizardForm {
  const isUnread = faults.length === 1 && faults[0]?.field === 'issuer';
  return { ...form, faults, namedIssuer, isUnread };
}

/** Returns the URLs to enter at the provider: all of them if its facts are not known. */
function urlsFor(parts: {
  id: string;
  facts: ProviderFacts | undefined;
  preset: Preset | undefined;
  publicHref: string;
}) {
  const { facts } = parts;
  const urls = providerUrls(parts.id, parts.publicHref);
  const fields = parts.preset?.registration.fields;
  const mayUse = (isOffered: boolean | undefined) => isOffered !== false;
  return [
    { label: 'Callback URL', url: urls.callback, field: fields?.callback, isShown: true },
    {
      label: 'Post-logout redirect URL',
      url: urls.postLogout,
      field: fields?.postLogout,
      isShown: mayUse(facts?.endpoints.includes('end-session')),
    },
    {
      label: 'Back-channel logout URL',
      url: urls.backchannelLogout,
      field: undefined,
      isShown: mayUse(facts?.backchannelLogout),
    },
    {
      label: 'JWKS URL, if you authenticate by private_key_jwt',
      url: urls.jwks,
      field: undefined,
      isShown: mayUse(facts?.authMethods.includes('private_key_jwt')),
    },
  ].filter(({ isShown }) => isShown);
}
