/** The parts that the plans of the demo's history share. */
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { DemoApps } from './apps.ts';
import type { Modules } from './modules.ts';
import type { Random } from './random.ts';
import type { Timeline } from './timeline.ts';

export interface Scene {
  modules: Modules;
  timeline: Timeline;
  random: Random;
  /** The start of the demo: milliseconds since the epoch, like every time in this folder. */
  now: number;
  sandbox: Sandbox;
  apps: DemoApps;
  /** URLs that webhook messages are sent to. */
  receivers: { working: string; failing: string };
  /** When the provider was unavailable. */
  outage: { from: number; to: number };
}
