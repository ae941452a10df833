/** Registers an app in two steps: where the provider is, and the registration there and here. Then its check shows how it works. */
import type { NextFunction, Request, Response } from 'express';
import { formField, queryField } from '../../../shared/http/body.ts';
import { parseInput } from '../../../shared/http/operation.ts';
import { formHandler, typedIn } from '../../../shared/pages/form.ts';
import type { FieldFault } from '../../../shared/pages/page-data.ts';
import { type ConnectedApp, callbackUrlOf, isUsable, providerUrls } from '../../../shared/provider/connected-app.ts';
import { PRESETS, type Preset, presetLimits, SIMULATED, signsIn } from '../../connected-apps/presets.ts';
import type { ProviderFacts } from '../../connected-apps/provider-facts.ts';
import type { AdminPageData, AdminPages, PageRequest } from '../page.ts';
import type { ConnectedAppChanges } from './changes.ts';
import { type CheckNow, checkPage } from './check.ts';
import { DRAWN_FIELDS, type DrawnField } from './drawn-fields.ts';
import { isId, registrationOf } from './form.ts';
import { NOTICES } from './notices.ts';
import type { ProviderReading } from './provider-reading.ts';
import { type RegisterAtProvider, wantedApp } from './provider-registration.ts';
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
      urls: { label: string; url: string }[];
      /** Of known providers, to start from: first those that users can sign in with. */
      presets: readonly { title: string; ofKind: readonly Pick<Preset, 'id' | 'name' | 'triedWith'>[] }[];
      /** What the mark of those that no server has shown means. */
      simulated: string;
      /** The chosen one. */
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

  const page = pages.page('admin/connected-apps/register', async ({ req, form: typed }: PageRequest<WizardForm>) => {
    const preset = presetOf(req);
    const form = typed ?? newForm(preset);
    const step = stepOf(form);
    const facts = form.provider ?? (step === 'registration' ? await provider.shown(form) : undefined);
    return {
      title: 'Register an app',
      faults: form.faults,
      step,
      form: { ...form, provider: facts },
      drawn: DRAWN_FIELDS,
      urls: step === 'registration' ? urlsFor(form.values.id, facts, publicHref) : [],
      presets: PRESET_KINDS,
      simulated: SIMULATED,
      preset: preset && { ...preset, limits: presetLimits(preset) },
      placeholders: openPlaceholders(preset, form.values),
    };
  });

  /** The callback URL of this Gatehouse follows the id of a new app; an empty list gets it too. */
  const withOwnCallbackUrl = (id: string, typedUrls: readonly string[]): readonly string[] => {
    const own = callbackUrlOf(isId(id) ? id : 'id', publicHref);
    const isOwn = (url: string) => url.startsWith(callbackUrlOf('', publicHref));
    return typedUrls.length === 0 ? [own] : [...new Set(typedUrls.map((url) => (isOwn(url) ? own : url)))];
  };

  const create = formHandler({
    ...WIZARD_FORM,
    pages,
    async work(req, { id, initialAccessToken: token, step: _, placeholder: __, ...form }) {
      const { clientId, clientSecret, ...wanted } = registrationOf(form, withOwnCallbackUrl(id, form.callbackUrl));
      const isThere = formField(req.body, 'do') === 'register_there';
      const { app } = isThere
        ? await registerAtProvider(
            req,
            parseInput(wantedApp, { ...wanted, id, initialAccessToken: token || undefined }),
          )
        : await changes.create(req, parseInput(newApp, { ...wanted, id, clientId, clientSecret }));
      // The app is registered, whatever becomes of its check.
      await checkNow(req, app).catch(() => undefined);
      return { url: `${checkPage(basePath, app.id)}?registered=yes`, flash: { notice: noticeOf(app, isThere) } };
    },
    show: page.show,
  });

  const noticeOf = (app: ConnectedApp, isThere: boolean) => {
    if (!isUsable(app, publicHref)) return NOTICES.registered_unusable;
    return isThere ? NOTICES.registered_there : NOTICES.registered;
  };

  /** The second step, or the first with faults. */
  const next = async (req: Request, wanted: string | undefined): Promise<WizardForm> => {
    const typed = typedIn(WIZARD_FORM, req.body);
    const filled = withPlaceholders(presetOf(req), typed.values);
    const id = filled.values.id || idFrom(filled.values.name);
    const form = { ...typed, values: { ...filled.values, id, step: 'provider', isRead: '' } };
    const taken = isId(id) && (await changes.isTaken(id)) ? [TAKEN] : [];
    // An issuer that still has a placeholder is not judged.
    const ofAddress = provider
      .addressFaults(form.values)
      .filter(({ field }) => filled.faults.length === 0 || field !== 'issuer');
    const faults = [...taken, ...ofAddress, ...filled.faults];
    const isReady = faults.length === 0;
    if (isReady && wanted === 'by_hand') return onward(form);
    const read = isReady || taken.length > 0 ? await provider.read(form.values) : undefined;
    if (isReady && wanted === 'use_issuer' && read?.namedIssuer !== undefined) {
      const corrected = { ...form, values: { ...form.values, issuer: read.namedIssuer } };
      const again = await provider.read(corrected.values);
      return again.facts ? onward(corrected, again.facts) : refused(corrected, again);
    }
    if (isReady && read?.facts) return onward(form, read.facts);
    return refused(form, { ...read, faults: [...faults, ...(read?.faults ?? [])] });
  };

  const onward = (form: Omit<WizardForm, 'faults'>, facts?: ProviderFacts): WizardForm => {
    const { id, callbackUrl, tokenEndpointAuthMethod: method } = form.values;
    const offered = facts && { isRead: 'yes', tokenEndpointAuthMethod: provider.methodFor(method, facts) };
    const callbackUrls = withOwnCallbackUrl(id, callbackUrl);
    const values = { ...form.values, ...offered, step: 'registration', callbackUrl: callbackUrls };
    return { ...form, values, provider: facts, faults: [] };
  };

  return {
    page: page.handler,

    async submit(req: Request, res: Response, nextHandler: NextFunction) {
      const wanted = formField(req.body, 'do');
      if (wanted === 'save' || wanted === 'register_there') return create(req, res, nextHandler);
      if (wanted === 'back') {
        const typed = typedIn(WIZARD_FORM, req.body);
        return page.show(req, res, { ...typed, values: { ...typed.values, step: 'provider' }, faults: [] });
      }
      const form = await next(req, wanted);
      return page.show(req, res.status(form.faults.length > 0 ? 400 : 200), form);
    },
  };
}

const PRESET_KINDS = [
  { title: 'For signing in and connecting', ofKind: PRESETS.filter(signsIn) },
  {
    title: 'Only for connecting: no ID token, so users cannot sign in',
    ofKind: PRESETS.filter((one) => !signsIn(one)),
  },
];
const TAKEN: FieldFault = { field: 'id', text: 'Another app has this id: choose another.' };

function refused(
  form: Omit<WizardForm, 'faults'>,
  { faults, namedIssuer }: { faults: readonly FieldFault[]; namedIssuer?: string | undefined },
): WizardForm {
  const isUnread = faults.length === 1 && faults[0]?.field === 'issuer';
  return { ...form, faults, namedIssuer, isUnread };
}

/** What to enter at the provider. @param facts undefined: not known, so every URL is shown */
function urlsFor(id: string, facts: ProviderFacts | undefined, publicHref: string) {
  const urls = providerUrls(id, publicHref);
  const has = (isOffered: boolean | undefined) => isOffered !== false;
  return [
    { label: 'Callback URL', url: urls.callback, isShown: true },
    {
      label: 'Post-logout redirect URL',
      url: urls.postLogout,
      isShown: has(facts?.endpoints.includes('end-session')),
    },
    {
      label: 'Back-channel logout URL',
      url: urls.backchannelLogout,
      isShown: has(facts?.backchannelLogout),
    },
    {
      label: 'JWKS URL, if you authenticate by private_key_jwt',
      url: urls.jwks,
      isShown: has(facts?.authMethods.includes('private_key_jwt')),
    },
  ].filter(({ isShown }) => isShown);
}
