/** Signs users out at the identity provider (OpenID Connect RP-Initiated Logout 1.0). */
import type { ProviderContext } from 'oidc-provider/lib/provider.js';
import type { Accounts } from './accounts.ts';
import type { Pages } from './pages.ts';

export function createSignOut({ accounts, pages }: { accounts: Accounts; pages: Pages }) {
  const show = (ctx: ProviderContext, name: string, data: Record<string, unknown>) => {
    ctx.type = 'html';
    ctx.set(pages.headers);
    ctx.body = pages.render(name, data);
  };

  return {
    /** The setting `rpInitiatedLogout` of oidc-provider. */
    feature: {
      enabled: true,
      logoutSource: async (ctx: ProviderContext) => {
        const { session, client, urlFor } = requireOidc(ctx);
        show(ctx, 'sign-out', {
          title: 'Sign out',
          account: accounts.byId(session?.accountId ?? ''),
          client,
          xsrf: session?.state?.secret,
          action: urlFor('end_session_confirm'),
        });
      },
      postLogoutSuccessSource: async (ctx: ProviderContext) => {
        const isStillSignedIn = requireOidc(ctx).client !== undefined;
        const text = isStillSignedIn
          ? 'You are still signed in here.'
          : 'You are signed out here and may close this page.';
        show(ctx, 'message', { title: isStillSignedIn ? 'Still signed in' : 'Signed out', text });
      },
    },

    /**
     * Replaces the page for a user who signs in while another user is signed in. The script of the library's page signs
     * the other user out; this page has a button.
     */
    async askBeforeSwitching(ctx: ProviderContext, next: () => Promise<void>): Promise<void> {
      await next();
      const { oidc } = ctx;
      if (oidc?.route !== 'resume' || ctx.status !== 200 || oidc.session?.state === undefined) return;
      show(ctx, 'switch', {
        title: 'Switch accounts',
        account: accounts.byId(oidc.session.accountId ?? ''),
        xsrf: oidc.session.state.secret,
        action: oidc.urlFor('end_session_confirm'),
      });
    },

    /**
     * Redirects at once if no user is signed in. The library would send a page that needs JavaScript to post a form.
     */
    async redirectSignedOut(ctx: ProviderContext, next: () => Promise<void>): Promise<void> {
      await next();
      const { oidc } = ctx;
      if (oidc?.route !== 'end_session' || ctx.status !== 200 || oidc.session?.accountId !== undefined) return;
      const returnUrl = new URL(oidc.params.post_logout_redirect_uri ?? oidc.urlFor('end_session_success'));
      if (oidc.params.state !== undefined) returnUrl.searchParams.set('state', oidc.params.state);
      ctx.redirect(returnUrl.href);
      ctx.status = 303;
    },
  };
}

/** Returns the library's context of this request, with `urlFor` bound to it. */
function requireOidc(ctx: ProviderContext) {
  const { oidc } = ctx;
  if (oidc === undefined) throw new Error('The sign-out page needs a request of the identity provider.');
  return { session: oidc.session, client: oidc.client, urlFor: (route: string) => oidc.urlFor(route) };
}
