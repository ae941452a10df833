/** A page that opens a declared route with the administrator's own connection, as a front end would. */
import type { Request, Response } from 'express';
import { z } from 'zod';
import { AppError } from '../../../shared/errors.ts';
import { type FormView, submittedValues } from '../../../shared/pages/form.ts';
import type { FieldFault } from '../../../shared/pages/page-data.ts';
import { type AppRoute, type PatternSegment, parsePattern } from '../../../shared/provider/app-routes.ts';
import { matchCall, routesOf } from '../../connected-apps/route-match.ts';
import type { AdminPageData, AdminPages, PageRequest } from '../page.ts';
import type { ConnectedAppReader } from './reader.ts';
import type { AppView } from './view.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/connected-apps/try-route': AdminPageData & {
      app: AppView;
      route: AppRoute;
      /** The names of the parameters in the path. */
      parameters: readonly string[];
      form: TrialForm;
    };
  }
}

/** The values of the path's parameters, and of the query's, each in the order of the declaration. */
const trialForm = z.object({ parameter: z.array(z.string().trim()), query: z.array(z.string().trim()) });
type TrialForm = FormView<typeof trialForm>;

const NO_VALUES: TrialForm = { values: { parameter: [], query: [] }, faults: [] };

export function routeTrial(parts: { reader: ConnectedAppReader; pages: AdminPages; basePath: string }) {
  const { reader, pages, basePath } = parts;

  /** @throws AppError `not_found` */
  const find = async (req: Request) => {
    const app = await reader.read(String(req.params.id));
    const route = routesOf(app).find(({ name, method }) => name === req.params.route && method === 'GET');
    if (!route) throw new AppError('not_found', { detail: 'The app has no route with this name and the method GET.' });
    return { app, route, segments: parsePattern(route.path) ?? [] };
  };

  const page = pages.page('admin/connected-apps/try-route', async ({ req, form }: PageRequest<TrialForm>) => {
    const { app, route, segments } = await find(req);
    return {
      title: `Try ${route.name}`,
      faults: form?.faults ?? [],
      app,
      route,
      parameters: parametersOf(segments),
      form: form ?? NO_VALUES,
    };
  });

  return {
    page: page.handler,

    async open(req: Request, res: Response): Promise<void> {
      const { app, route, segments } = await find(req);
      const submitted = submittedValues({ schema: trialForm }, req.body);
      const { parameter, query } = trialForm.parse(submitted.values);
      const target = targetOf(segments, route, { parameter, query });
      const faults = faultsOf({ parameters: parametersOf(segments), values: parameter }, () =>
        matchCall(app, 'GET', target),
      );
      if (faults.length === 0) return res.redirect(303, `${basePath}/api/${app.id}${target}`);
      const url = `${basePath}/admin/connected-apps/${app.id}/routes/${route.name}`;
      await pages.redirectToForm(req, res, url, { status: 400, form: { ...submitted, faults } });
    },
  };
}

function parametersOf(segments: readonly PatternSegment[]): string[] {
  return segments.flatMap((segment) => ('parameter' in segment ? [segment.parameter] : []));
}

/** Returns path and query as a caller would send them. Query parameters without a value are left out. */
function targetOf(
  segments: readonly PatternSegment[],
  route: AppRoute,
  { parameter, query }: { parameter: readonly string[]; query: readonly string[] },
): string {
  const names = parametersOf(segments);
  const texts = segments.map((segment) =>
    'literal' in segment ? segment.literal : encodeURIComponent(parameter[names.indexOf(segment.parameter)] ?? ''),
  );
  const fields = route.query.flatMap((name, index) => {
    const value = query[index] ?? '';
    return value === '' ? [] : [`${encodeURIComponent(name)}=${encodeURIComponent(value)}`];
  });
  return `/${texts.join('/')}${fields.length === 0 ? '' : `?${fields.join('&')}`}`;
}

function faultsOf(
  { parameters, values }: { parameters: readonly string[]; values: readonly string[] },
  match: () => unknown,
): FieldFault[] {
  const missing = parameters.flatMap((name, index) =>
    values[index] ? [] : [{ field: `parameter-${index}`, text: `Enter a value for ${name}.` }],
  );
  if (missing.length > 0) return missing;
  try {
    match();
    return [];
  } catch (error) {
    if (!(error instanceof AppError) || error.status >= 500) throw error;
    return [{ field: parameters.length > 0 ? 'parameter-0' : '', text: error.detail ?? 'No route matches this call.' }];
  }
}
