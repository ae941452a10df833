/** The routes in the form of a connected app: one row per route, and in each field of the row a column of the form. */
import { z } from 'zod';
import { ADVICE, inputFaults } from '../../../shared/config/input-faults.ts';
import { entriesOf } from '../../../shared/pages/form.ts';
import {
  type AppRoute,
  ambiguityAdvice,
  appRouteSchema,
  areAmbiguous,
  CURRENT_THREAD,
  ROUTE_METHODS,
} from '../../../shared/provider/app-routes.ts';

/** The values of a field in all rows: empty ones count, since a row is found by its position. */
const column = z.array(z.string().trim());

/** The fields of the rows, in the order of the page. */
export const routeColumns = {
  routeName: column,
  routeMethod: column,
  routePath: column,
  routeQuery: column,
  routeScopes: column,
  /** The positions of the rows to remove. */
  routeRemoved: z.array(z.string()),
};

type Columns = Record<keyof typeof routeColumns, readonly string[]>;

/** Maps the members of a route to the columns that show their faults. */
export const ROUTE_INPUTS = {
  'routes/#/name': 'routeName',
  'routes/#/method': 'routeMethod',
  'routes/#/path': 'routePath',
  'routes/#/query': 'routeQuery',
  'routes/#/scopes': 'routeScopes',
  routes: 'routeName',
} as const satisfies Record<string, keyof Columns>;

export function routeValues(routes: readonly AppRoute[] = []): Columns {
  return {
    routeName: routes.map(({ name }) => name),
    routeMethod: routes.map(({ method }) => method),
    routePath: routes.map(({ path }) => path),
    routeQuery: routes.map(({ query }) => query.join(' ')),
    routeScopes: routes.map(({ scopes }) => scopes.join(' ')),
    routeRemoved: [],
  };
}

/** Leaves out the rows without text and those to remove, so that the positions are those of the routes. */
export function withoutEmptyRows<Values extends Columns>(values: Values): Values {
  const { routeName, routeMethod, routePath, routeQuery, routeScopes, routeRemoved } = values;
  const texts = [routeName, routePath, routeQuery, routeScopes];
  const isLeft = (position: number) =>
    !routeRemoved.includes(String(position)) && texts.some((list) => (list[position] ?? '').trim() !== '');
  const positions = [...Array(Math.max(...texts.map(({ length }) => length))).keys()].filter(isLeft);
  const left = (list: readonly string[]) => positions.map((position) => list[position] ?? '');
  return {
    ...values,
    routeName: left(routeName),
    routeMethod: left(routeMethod),
    routePath: left(routePath),
    routeQuery: left(routeQuery),
    routeScopes: left(routeScopes),
    routeRemoved: [],
  };
}

/** Returns the unchecked routes of the form; undefined if it has none. */
export function enteredRoutes(columns: Columns): unknown[] | undefined {
  const { routeName, routeMethod, routePath, routeQuery, routeScopes } = columns;
  if (routeName.length === 0) return undefined;
  return routeName.map((name, position) => ({
    name,
    method: routeMethod[position],
    path: routePath[position],
    query: entriesOf(routeQuery[position] ?? '', /\s/),
    scopes: entriesOf(routeScopes[position] ?? '', /\s/),
  }));
}

/** Routes whose patterns are checked before the other fields are entered. */
export const typedRoutes = z
  .array(z.strictObject({ name: z.string().max(200), method: z.enum(ROUTE_METHODS), path: z.string().max(2000) }))
  .max(50);

/** Returns the faults of the patterns, with the words that saving the form would show. */
export function patternFaults(
  routes: z.output<typeof typedRoutes>,
  threadPath: string,
): { position: number; detail: string }[] {
  const currentThread = { name: CURRENT_THREAD, method: 'GET', path: threadPath } as const;
  return routes.flatMap((route, position) => {
    const [fault] = inputFaults(appRouteSchema.shape.path.safeParse(route.path, ADVICE).error ?? new z.ZodError([]));
    if (fault) return [{ position, detail: fault.detail }];
    const rival = [currentThread, ...routes.slice(0, position)].find((earlier) => areAmbiguous(earlier, route));
    return rival ? [{ position, detail: ambiguityAdvice(rival.name) }] : [];
  });
}
