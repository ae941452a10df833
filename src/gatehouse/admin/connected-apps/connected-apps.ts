/** Creates the routes of connected apps: pages, API and check. */
import type { AdminParts } from '../parts.ts';
import { createTimelines } from '../timeline/timeline.ts';
import { connectedAppApi } from './api.ts';
import { createConnectedAppChanges } from './changes.ts';
import { connectedAppCheckRoutes, createCheckNow } from './check.ts';
import { appEditing } from './editing.ts';
import { createAppFigures } from './figures.ts';
import { connectedAppPages, createContentOfApp } from './pages.ts';
import { createProviderReading } from './provider-reading.ts';
import { createProviderRegistration } from './provider-registration.ts';
import { connectedAppQuestions } from './questions.ts';
import { connectedAppReader } from './reader.ts';
import { routeTrial } from './route-trial.ts';
import { connectedAppSettings } from './settings.ts';
import { createWithdraw } from './withdrawal.ts';
import { connectedAppWizard } from './wizard.ts';

export function connectedAppRoutes(parts: AdminParts) {
  const { connectedApps, outbound, audit, grants, pages, publicUrl, clock } = parts;
  const { apps, registry, checks, registration: atProvider, readProviderFacts: readProvider } = connectedApps;
  const { href: publicHref, basePath } = publicUrl;
  const { examine } = outbound;
  const countConnections = grants.index.count;
  const reader = connectedAppReader({
    apps,
    registry,
    checks,
    findIneffectiveEndpoints: connectedApps.findIneffectiveEndpoints,
    publicHref,
    countConnections,
    countConnectionsWithout: grants.missing.count,
  });
  const withdraw = createWithdraw({ registration: atProvider, audit });
  const { links, countSetAside } = grants;
  const changes = createConnectedAppChanges({
    apps,
    registry,
    checks,
    audit,
    examine,
    withdraw,
    countConnections,
    countSetAside,
    links,
    endRemaining: grants.endRemaining,
    publicHref,
  });
  const registerAt = atProvider.register;
  const registerAtProvider = createProviderRegistration({
    changes,
    audit,
    readProvider,
    registerAt,
    withdraw,
    publicHref,
  });
  const editing = appEditing(parts);
  const provider = createProviderReading({ readProvider });
  const checkNow = createCheckNow(parts);
  const contentOf = createContentOfApp(clock);
  return {
    wizard: connectedAppWizard({
      changes,
      checkNow,
      registerAtProvider,
      provider,
      pages,
      publicHref,
      basePath,
    }),
    pages: connectedAppPages({
      reader,
      readFigures: createAppFigures(parts),
      timelines: createTimelines(parts),
      contentOf,
      pages,
      clock,
    }),
    settings: connectedAppSettings({
      reader,
      changes,
      editing,
      provider,
      whenChecked: checks.whenChecked,
      contentOf,
      pages,
      basePath,
    }),
    questions: connectedAppQuestions({
      ...parts,
      reader,
      changes,
      editing,
      countRevocations: grants.revocations.countOf,
    }),
    api: connectedAppApi({ reader, changes, registerAtProvider, publicHref }),
    trial: routeTrial({ reader, pages, basePath }),
    check: connectedAppCheckRoutes({ reader, checkNow, pages, apps, basePath }),
  };
}
