package cloud

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/credentials/processcreds"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/aws-sdk-go-v2/service/sts/types"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

// awsVendor gets credentials with the SDK's default chain: environment, web identity, profile
// with SSO, container and pod identity, instance metadata. Roles follow.
type awsVendor struct{ *provider.AWS }

func (v *awsVendor) fetch(ctx context.Context, client *http.Client) (*token, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	ctx, clock := withClock(ctx)
	cfg, err := config.LoadDefaultConfig(ctx, v.options(client)...)
	if err != nil {
		return nil, err
	}
	for _, r := range v.Roles {
		cfg.Credentials = stscreds.NewAssumeRoleProvider(sts.NewFromConfig(cfg.Copy()), r.ARN, func(o *stscreds.AssumeRoleOptions) { assume(o, r) })
	}
	keys, err := cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, err
	}
	t := &token{secrets: []string{keys.AccessKeyID, keys.SecretAccessKey}, sign: newSigner(keys, v.Region, v.Service)}
	if keys.SessionToken != "" {
		t.secrets = append(t.secrets, keys.SessionToken)
	}
	if keys.CanExpire {
		t.expires = ending(clock.local(keys.Expires))
	}
	return t, nil
}

// options returns the settings of the SDK.
func (v *awsVendor) options(client *http.Client) []func(*config.LoadOptions) error {
	options := []func(*config.LoadOptions) error{
		config.WithHTTPClient(buildable()), // the only kind to which the SDK adds the authorities of AWS_CA_BUNDLE
		config.WithAfterTransmit(clockReader{}),
		config.WithAPIOptions([]func(*middleware.Stack) error{checkOutput}),
		config.WithEndpointCredentialOptions(func(o *endpointcreds.Options) { o.HTTPClient = client }),  // the SDK's own follows redirects
		config.WithCredentialsCacheOptions(func(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = 0 }), // renewal is ours
		config.WithRegion(v.Region),
		// Credential tries again by a timer. The SDK would wait in a goroutine that outlives the fetch.
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }),
		// A context that has ended starts no program, even if a profile changes after check.
		config.WithProcessCredentialOptions(func(o *processcreds.Options) { o.Timeout = 0 }),
		config.WithEC2RoleCredentialOptions(func(o *ec2rolecreds.Options) {
			o.Client = imds.New(imds.Options{HTTPClient: client, Retryer: aws.NopRetryer{}, EnableFallback: aws.FalseTernary, Endpoint: os.Getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"), ClientEnableState: imdsState()})
		}),
	}
	if v.Profile != "" {
		options = append(options, config.WithSharedConfigProfile(v.Profile))
	}
	return options
}

// buildable returns a client of the SDK's own kind with the connections of newTransport. The SDK
// wraps no body of its own, so that the connections limit what is read.
func buildable() *awshttp.BuildableClient {
	ours := newTransport()
	return awshttp.NewBuildableClient().WithTimeout(fetchTime).WithTransportOptions(func(t *http.Transport) {
		t.Proxy, t.MaxResponseHeaderBytes = ours.Proxy, ours.MaxResponseHeaderBytes
		t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := ours.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &limitedConn{conn, maxResponse}, nil
		}
		t.DisableCompression = true // what is unpacked is as small as what arrives
		t.TLSHandshakeTimeout, t.ResponseHeaderTimeout = ours.TLSHandshakeTimeout, ours.ResponseHeaderTimeout
		t.DisableKeepAlives = true // a client serves one fetch
	})
}

// clockReader notes the issuer's clock.
type clockReader struct{}

// AfterTransmit is called with every response.
func (clockReader) AfterTransmit(ctx context.Context, in *smithyhttp.InterceptorContext) error {
	if in.Response != nil {
		noteClock(ctx, in.Response.Header)
	}
	return nil
}

// checkOutput rejects answers without the part of which the SDK reads the credential, without a look
// whether it is there. The SDK reads on a goroutine of its own, where a panic ends the process.
func checkOutput(stack *middleware.Stack) error {
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("CheckOutput", func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
		out middleware.DeserializeOutput, metadata middleware.Metadata, err error,
	) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("the issuer's answer cannot be read: %v", p)
			}
		}()
		if out, metadata, err = next.HandleDeserialize(ctx, in); err == nil {
			err = checkResult(reflect.ValueOf(out.Result))
		}
		return out, metadata, err
	}), middleware.Before)
}

func checkResult(v reflect.Value) error {
	if v.Kind() != reflect.Pointer {
		return nil
	}
	if v.IsNil() { // a container's endpoint sent "null"
		return errors.New("the issuer's answer is empty")
	}
	if v = v.Elem(); v.Kind() != reflect.Struct {
		return nil
	}
	if f := v.FieldByName("RoleCredentials"); f.IsValid() && f.Kind() == reflect.Pointer && f.IsNil() {
		return errors.New("the issuer's answer has no credential")
	}
	return nil
}

// imdsState applies AWS_EC2_METADATA_DISABLED, which the SDK reads only for its own client.
func imdsState() imds.ClientEnableState {
	if os.Getenv("AWS_EC2_METADATA_DISABLED") == "true" {
		return imds.ClientDisabled
	}
	return imds.ClientEnabled
}

func assume(o *stscreds.AssumeRoleOptions, r provider.Role) {
	o.RoleSessionName = r.Session
	if r.ExternalID != "" {
		o.ExternalID = aws.String(r.ExternalID)
	}
	if r.Duration > 0 {
		o.Duration = r.Duration
	}
	for _, t := range r.Tags {
		o.Tags = append(o.Tags, types.Tag{Key: aws.String(t.Key), Value: aws.String(t.Value)})
	}
	o.TransitiveTagKeys = r.Transitive
}

// newSigner returns the signing function of a set of keys.
func newSigner(keys aws.Credentials, region, service string) func(time.Time, *http.Request, []byte) error {
	signer := v4.NewSigner()
	return func(now time.Time, req *http.Request, body []byte) error {
		sum := sha256.Sum256(body)
		signed := &http.Request{Method: req.Method, URL: req.URL, Host: req.Host, Header: make(http.Header, len(req.Header)+3), ContentLength: int64(len(body))}
		for name, values := range req.Header {
			if len(values) > 0 && !slices.Contains(unsignedHeaders[:], name) { // net/http sends no header for an empty list
				signed.Header[name] = values
			}
		}
		for _, name := range signatureHeaders {
			delete(signed.Header, name)
			delete(req.Header, name)
		}
		if err := signer.SignHTTP(context.Background(), keys, signed, hex.EncodeToString(sum[:]), service, region, now); err != nil {
			return err
		}
		if !inOrder(req.URL.RawQuery) {
			return errors.New("the query cannot be signed: the AWS SDK sorts it before it escapes it, and the service after; leave out members that need escapes")
		}
		req.Host = signed.Host // without the port of the scheme
		for _, name := range signatureHeaders {
			if values := signed.Header[name]; len(values) > 0 {
				req.Header[name] = values
			}
		}
		return nil
	}
}

// inOrder reports whether the members of a query are sorted by name and value as they are
// written, which is the order that a service signs.
func inOrder(query string) bool {
	return slices.IsSortedFunc(strings.Split(query, "&"), func(a, b string) int {
		nameA, valueA, _ := strings.Cut(a, "=")
		nameB, valueB, _ := strings.Cut(b, "=")
		return cmp.Or(cmp.Compare(nameA, nameB), cmp.Compare(valueA, valueB))
	})
}

// unsignedHeaders are headers of traces, which proxies on the way may change. The Python SDK
// does not sign them either.
var unsignedHeaders = [...]string{"Traceparent", "Tracestate", "Baggage"}

// signatureHeaders are the headers that the signer sets.
var signatureHeaders = [...]string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token"}

// files lists the shared configuration files. Environment and metadata cannot change under a
// running process, or have an end.
func (v *awsVendor) files() []string {
	if v.Profile == "" && os.Getenv("AWS_ACCESS_KEY_ID") != "" {
		return nil
	}
	var list []string
	for _, path := range []string{credentialsFile(), configFile()} {
		if _, err := os.Stat(path); err == nil || v.Profile != "" {
			list = append(list, path)
		}
	}
	return list
}

func credentialsFile() string {
	if path := os.Getenv("AWS_SHARED_CREDENTIALS_FILE"); path != "" {
		return path
	}
	return config.DefaultSharedCredentialsFilename()
}

func configFile() string {
	if path := os.Getenv("AWS_CONFIG_FILE"); path != "" {
		return path
	}
	return config.DefaultSharedConfigFilename()
}

// check reads the profile. It rejects one that starts a program.
func (v *awsVendor) check() error {
	name := v.Profile
	for _, variable := range []string{"AWS_PROFILE", "AWS_DEFAULT_PROFILE"} {
		if name == "" {
			name = os.Getenv(variable)
		}
	}
	explicit := name != ""
	if !explicit {
		name = config.DefaultSharedConfigProfile
	}
	profile, err := config.LoadSharedConfigProfile(context.Background(), name, func(o *config.LoadSharedConfigOptions) {
		o.CredentialsFiles, o.ConfigFiles = []string{credentialsFile()}, []string{configFile()}
	})
	if missing := (config.SharedConfigProfileNotExistError{}); errors.As(err, &missing) {
		if explicit {
			return fmt.Errorf("the profile %q is not in %s or %s; write its name as it is in the file", name, configFile(), credentialsFile())
		}
		return nil
	}
	if err != nil {
		return err
	}
	for p := &profile; p != nil; p = p.Source {
		if p.CredentialProcess != "" {
			return fmt.Errorf("the profile %q has credential_process, which the gateway does not run; use a role, SSO, web identity or the instance's own credential", p.Profile)
		}
	}
	return nil
}
