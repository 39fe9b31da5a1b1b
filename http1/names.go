package http1

// known is a field name that the fast path knows, and so neither copies nor canonicalises.
type known uint8

const (
	otherName known = iota
	acceptName
	acceptCharsetName
	acceptEncodingName
	acceptLanguageName
	authorizationName
	baggageName
	cacheControlName
	connectionName
	contentEncodingName
	contentLengthName
	contentTypeName
	cookieName
	dateName
	dntName
	expectName
	forwardedName
	hostName
	ifMatchName
	ifModifiedSinceName
	ifNoneMatchName
	ifRangeName
	ifUnmodifiedSinceName
	keepAliveName
	originName
	pragmaName
	priorityName
	rangeName
	refererName
	saveDataName
	secChUAName
	secChUAMobileName
	secChUAPlatformName
	secFetchDestName
	secFetchModeName
	secFetchSiteName
	secFetchUserName
	secGPCName
	teName
	traceparentName
	tracestateName
	trailerName
	transferEncodingName
	upgradeName
	upgradeInsecureRequestsName
	userAgentName
	viaName
	xAPIKeyName
	xCSRFTokenName
	xForwardedForName
	xForwardedHostName
	xForwardedPortName
	xForwardedProtoName
	xRealIPName
	xRequestIDName
	xRequestedWithName
)

// knownNames are spelled as textproto.CanonicalMIMEHeaderKey spells them.
var knownNames = [...]string{
	acceptName:                  "Accept",
	acceptCharsetName:           "Accept-Charset",
	acceptEncodingName:          "Accept-Encoding",
	acceptLanguageName:          "Accept-Language",
	authorizationName:           "Authorization",
	baggageName:                 "Baggage",
	cacheControlName:            "Cache-Control",
	connectionName:              "Connection",
	contentEncodingName:         "Content-Encoding",
	contentLengthName:           "Content-Length",
	contentTypeName:             "Content-Type",
	cookieName:                  "Cookie",
	dateName:                    "Date",
	dntName:                     "Dnt",
	expectName:                  "Expect",
	forwardedName:               "Forwarded",
	hostName:                    "Host",
	ifMatchName:                 "If-Match",
	ifModifiedSinceName:         "If-Modified-Since",
	ifNoneMatchName:             "If-None-Match",
	ifRangeName:                 "If-Range",
	ifUnmodifiedSinceName:       "If-Unmodified-Since",
	keepAliveName:               "Keep-Alive",
	originName:                  "Origin",
	pragmaName:                  "Pragma",
	priorityName:                "Priority",
	rangeName:                   "Range",
	refererName:                 "Referer",
	saveDataName:                "Save-Data",
	secChUAName:                 "Sec-Ch-Ua",
	secChUAMobileName:           "Sec-Ch-Ua-Mobile",
	secChUAPlatformName:         "Sec-Ch-Ua-Platform",
	secFetchDestName:            "Sec-Fetch-Dest",
	secFetchModeName:            "Sec-Fetch-Mode",
	secFetchSiteName:            "Sec-Fetch-Site",
	secFetchUserName:            "Sec-Fetch-User",
	secGPCName:                  "Sec-Gpc",
	teName:                      "Te",
	traceparentName:             "Traceparent",
	tracestateName:              "Tracestate",
	trailerName:                 "Trailer",
	transferEncodingName:        "Transfer-Encoding",
	upgradeName:                 "Upgrade",
	upgradeInsecureRequestsName: "Upgrade-Insecure-Requests",
	userAgentName:               "User-Agent",
	viaName:                     "Via",
	xAPIKeyName:                 "X-Api-Key",
	xCSRFTokenName:              "X-Csrf-Token",
	xForwardedForName:           "X-Forwarded-For",
	xForwardedHostName:          "X-Forwarded-Host",
	xForwardedPortName:          "X-Forwarded-Port",
	xForwardedProtoName:         "X-Forwarded-Proto",
	xRealIPName:                 "X-Real-Ip",
	xRequestIDName:              "X-Request-Id",
	xRequestedWithName:          "X-Requested-With",
}

// knownOfLength lists the known names by length.
var knownOfLength = [...][]known{
	2:  {teName},
	3:  {dntName, viaName},
	4:  {hostName, dateName},
	5:  {rangeName},
	6:  {acceptName, cookieName, expectName, originName, pragmaName},
	7:  {refererName, baggageName, secGPCName, trailerName, upgradeName},
	8:  {ifMatchName, ifRangeName, priorityName},
	9:  {forwardedName, saveDataName, secChUAName, xAPIKeyName, xRealIPName},
	10: {userAgentName, connectionName, keepAliveName, tracestateName},
	11: {traceparentName},
	12: {contentTypeName, xCSRFTokenName, xRequestIDName},
	13: {authorizationName, cacheControlName, ifNoneMatchName},
	14: {contentLengthName, secFetchSiteName, secFetchModeName, secFetchDestName, acceptCharsetName, secFetchUserName},
	15: {acceptEncodingName, acceptLanguageName, xForwardedForName},
	16: {contentEncodingName, secChUAMobileName, xForwardedHostName, xForwardedPortName, xRequestedWithName},
	17: {ifModifiedSinceName, transferEncodingName, xForwardedProtoName},
	18: {secChUAPlatformName},
	19: {ifUnmodifiedSinceName},
	25: {upgradeInsecureRequestsName},
}

// lookUp returns the known name that equals name, ignoring case.
func lookUp(name []byte) known {
	if len(name) >= len(knownOfLength) {
		return otherName
	}
	for _, k := range knownOfLength[len(name)] {
		if s := knownNames[k]; name[0]|' ' == s[0]|' ' && (string(name) == s || equalFold(name, s)) {
			return k
		}
	}
	return otherName
}
