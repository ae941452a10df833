/** Two receivers of webhook messages: one that takes them, and one that is down. */
import express from 'express';

const RECEIVERS = { crm: 204, billing: 503 };

/** @param onMessage called for each message, with the status of the response */
export function createReceivers(onMessage: (receiver: string, event: string, status: number) => void) {
  const router = express.Router();
  for (const [receiver, status] of Object.entries(RECEIVERS)) {
    router.post(`/${receiver}`, express.json({ limit: '64kb' }), (req, res) => {
      onMessage(receiver, String((req.body as { type?: unknown } | undefined)?.type ?? ''), status);
      res.status(status).end();
    });
  }
  return {
    router,
    /** @param base the URL of the router */
    urls: (base: string) => ({ working: `${base}/crm`, failing: `${base}/billing` }),
  };
}
