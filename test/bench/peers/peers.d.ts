/** Declares what the bench uses of the peers, so that the static checks pass where they are not installed. */
declare module 'express-openid-connect' {
  import type { RequestHandler } from 'express';

  const library: {
    auth(config: Record<string, unknown>): RequestHandler;
    requiresAuth(): RequestHandler;
  };
  export default library;
}

declare module 'http-proxy-middleware' {
  import type { Agent, ClientRequest } from 'node:http';
  import type { Request, RequestHandler } from 'express';

  export function createProxyMiddleware(options: {
    target: string;
    agent: Agent;
    pathRewrite: () => string;
    on: { proxyReq(proxyReq: ClientRequest, req: Request): void };
  }): RequestHandler;
}
