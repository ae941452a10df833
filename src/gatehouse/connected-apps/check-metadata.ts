/** Findings of the doctor from the provider's metadata (RFC 8414, OpenID Connect Discovery section 3). Pure. */
import { type ConnectedApp, isOpenIdApp } from '../../shared/provider/connected-app.ts';
import type { ProviderMetadata } from '../../shared/provider/provider-metadata.ts';
import { signingAlgorithms } from '../../shared/provider/signing-keys.ts';
import { type Finding, failed, passed, unknown } from './finding.ts';

export function checkMetadata(app: ConnectedApp, metadata: ProviderMetadata): Finding[] {
  return [
    ...(isOpenIdApp(app) ? [algorithmsFinding(metadata)] : []),
    pkceFinding(metadata),
    issFinding(metadata),
    scopesFinding(app, metadata),
    endSessionFinding(app, metadata),
    backchannelLogoutFinding(app, metadata),
  ];
}

function algorithmsFinding(metadata: ProviderMetadata): Finding {
  const advertised = list(metadata.id_token_signing_alg_values_supported);
  if (!advertised) return unknown('algorithms', 'The provider does not say how it signs ID tokens.');
  const usable = signingAlgorithms(metadata.id_token_signing_alg_values_supported);
  if (usable.length > 0) return passed('algorithms', `ID tokens may be signed with ${usable.join(', ')}.`);
  return failed('algorithms', 'The provider offers no signature with a public key.', {
    advice:
      'Configure it to sign ID tokens with RS256, PS256, ES256 or EdDSA: a shared secret or "none" proves nothing here.',
  });
}

function pkceFinding(metadata: ProviderMetadata): Finding {
  const methods = list(metadata.code_challenge_methods_supported);
  if (!methods) return unknown('pkce', 'The provider does not say whether it checks PKCE; it is sent anyway.');
  if (methods.includes('S256')) return passed('pkce', 'The provider checks PKCE with S256.');
  return failed('pkce', 'The provider lists PKCE methods, but S256 is not among them.', {
    advice: 'Ask the operator of the provider to allow S256 (RFC 7636): no other method is used.',
  });
}

function issFinding(metadata: ProviderMetadata): Finding {
  return metadata.authorization_response_iss_parameter_supported === true
    ? passed('iss', 'The provider names itself in the callback (RFC 9207), and Gatehouse checks it.')
    : unknown('iss', 'The provider does not promise to name itself in the callback. If it does, Gatehouse checks it.');
}

function scopesFinding(app: ConnectedApp, metadata: ProviderMetadata): Finding {
  const listed = list(metadata.scopes_supported);
  if (!listed) return unknown('scopes', 'The provider does not say which scopes it knows.');
  const unlisted = app.scopes.filter((scope) => !listed.includes(scope));
  if (unlisted.length === 0) return passed('scopes', 'The provider knows every scope of this app.');
  const detail = `The provider does not list: ${unlisted.join(' ')}.`;
  // A provider may leave out scopes that it knows (OpenID Connect Discovery section 3), and many do.
  const advice = 'It may know them all the same: check the spelling, and remove those that it does not know.';
  return unknown('scopes', detail, { advice, pointer: '#/scopes' });
}

function endSessionFinding(app: ConnectedApp, metadata: ProviderMetadata): Finding {
  if (!app.providerSignOut) return passed('end_session', 'Signing out at the provider is switched off for this app.');
  if (metadata.end_session_endpoint) return passed('end_session', 'Signing out here also signs out at the provider.');
  return unknown('end_session', 'No end-session endpoint is known: signing out here leaves users signed in there.', {
    advice: 'If the provider has one, set endpoints.endSession.',
    pointer: '#/endpoints/endSession',
  });
}

function backchannelLogoutFinding(app: ConnectedApp, metadata: ProviderMetadata): Finding {
  if (!app.signIn)
    return passed('backchannel_logout', 'The app is not used for sign-in, so there is no session to end.');
  if (metadata.backchannel_logout_supported !== true) {
    return unknown('backchannel_logout', 'The provider does not say that it notifies apps of sign-outs.');
  }
  const bySession = metadata.backchannel_logout_session_supported === true;
  return passed(
    'backchannel_logout',
    bySession
      ? 'The provider can end single sessions here, once the back-channel logout URL is registered there.'
      : 'The provider can end all sessions of a user here, once the back-channel logout URL is registered there.',
  );
}

function list(value: unknown): string[] | undefined {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : undefined;
}
