/** The dependencies of the admin console's pages. */
import type { Response } from 'express';
import type { Provider } from 'oidc-provider/lib/provider.js';
import type { Accounts } from '../accounts.ts';
import type { ApiTokens } from '../api-tokens.ts';
import type { Approvals } from '../approvals.ts';
import type { AppRegistry } from '../apps.ts';
import type { OwnSignIn, Visitor } from '../own-sign-in.ts';
import type { Pages } from '../pages.ts';
import type { PlatformCall } from '../platform-calls.ts';
import type { ConsoleForms } from './forms.ts';
import type { OneTimeSecrets } from './one-time-secrets.ts';

export interface ConsoleParts {
  provider: Provider;
  issuer: string;
  accounts: Accounts;
  apps: AppRegistry;
  apiTokens: ApiTokens;
  platformUrl: string;
  platformCalls: readonly PlatformCall[];
  approvals: Approvals;
  ownSignIn: OwnSignIn;
  pages: Pages;
  initialAccessToken: () => Promise<string>;
  endSessionsOf: (accountId: string) => Promise<void>;
  now: () => number;
}

/** The dependencies of the pages of each resource. */
export interface ResourceParts extends ConsoleParts {
  oneTimeSecrets: OneTimeSecrets;
  forms: ConsoleForms;
  visitor(res: Response): Visitor;
  /** Sends a page. @param name the name of a template in views/sandbox/console */
  show(res: Response, name: string, data: Record<string, unknown> & { title: string }): void;
}
