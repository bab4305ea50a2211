package provider

// The methods Words list the values that a configuration may have.

// Words lists the schemes.
func (Auth) Words() []string { return texts(Auths()...) }

// Words lists the versions.
func (HTTPVersion) Words() []string { return texts(AutoHTTP, HTTP1, H2C) }

// Words lists the modes.
func (StreamMode) Words() []string { return texts(Always, Mirror) }

// Words lists the treatments.
func (Extensions) Words() []string {
	return texts(ForwardExtensions, DropExtensions, RefuseExtensions)
}

// Words lists the treatments.
func (UnknownIDs) Words() []string { return texts(RefuseUnknown, ForwardUnknown) }

// Words lists the kinds.
func (CacheSalt) Words() []string { return texts(TenantSalt, SharedSalt, NoSalt) }

// Words lists the treatments.
func (ThinkTags) Words() []string { return texts(ThinkStart, ThinkOpened, NoThinkTags) }

// Words lists the formats.
func (Rerank) Words() []string { return texts(RerankSame, RerankCohere, RerankJina) }

// Words lists the scopes.
func (Quota) Words() []string { return texts(QuotaModel, QuotaProvider) }

// Words lists the methods.
func (Continuation) Words() []string {
	return texts(NoContinuation, ContinueTrailing, ContinueVLLM, ContinuePrefix)
}

func texts[T ~string](values ...T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}
