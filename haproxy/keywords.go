// SPDX-License-Identifier: Apache-2.0

package haproxy

// What the keywords of proxies mean for a load balancer in the kernel. Those that are read are in analyse.go and server.go; a
// keyword that is in no table prevents a takeover.

// verdict is what a keyword does to a takeover.
type verdict uint8

const (
	prevents verdict = iota
	harmless         // it changes nothing that a client or a server can see
	lost             // its effect is lost, and a note says so
	onlyHTTP         // HAProxy ignores it with mode tcp
)

// sides are the proxies that a keyword counts in: a listen section has both sides.
type sides uint8

const (
	front sides = 1 << iota
	back
)

func (k kind) sides() sides {
	switch k {
	case frontend:
		return front
	case backend:
		return back
	case listen:
		return front | back
	case other, defaults:
	}
	return 0
}

// rule is what a keyword means.
type rule struct {
	where   sides
	verdict verdict
	why     string
}

const both = front | back

var (
	needsBytes  = "it inspects the payload of connections"
	needsClient = "servers or rules depend on the client"
)

// keywords are those of frontend, backend, listen and defaults.
var keywords = map[string]rule{
	"acl":                         {both, prevents, "conditions are evaluated for each connection"},
	"use_backend":                 {front, prevents, "the backend depends on the connection"},
	"use-server":                  {back, prevents, "the server depends on the connection"},
	"tcp-request":                 {both, prevents, needsBytes},
	"tcp-response":                {back, prevents, needsBytes},
	"tcp-check":                   {back, prevents, "checks that send and expect payload are not supported"},
	"stick":                       {back, prevents, "clients stick to servers through a table"},
	"stick-table":                 {both, prevents, "clients are remembered in a table"},
	"maxconn":                     {front, prevents, "the number of connections is limited"},
	"fullconn":                    {back, harmless, ""},
	"rate-limit":                  {front, prevents, "the rate of connections is limited"},
	"compression":                 {both, prevents, needsBytes},
	"source":                      {back, prevents, "connections to servers come from a configured address"},
	"filter":                      {both, prevents, needsBytes},
	"dispatch":                    {back, prevents, "connections go to an address that is not a server"},
	"transparent":                 {back, prevents, "connections go to the address that clients connected to"},
	"server-template":             {back, prevents, "its servers come from DNS"},
	"external-check":              {back, prevents, "an external program checks the servers"},
	"hash-balance-factor":         {back, prevents, "the hash is bounded by the load of servers"},
	"force-persist":               {back, prevents, needsClient},
	"ignore-persist":              {back, prevents, needsClient},
	"persist":                     {back, prevents, needsBytes},
	"disabled":                    {both, prevents, "the section is disabled"},
	"enabled":                     {both, harmless, ""},
	"id":                          {both, harmless, ""},
	"description":                 {both, harmless, ""},
	"backlog":                     {front, harmless, ""},
	"retries":                     {back, harmless, ""},
	"bind-process":                {both, harmless, ""},
	"hash-type":                   {back, harmless, ""},
	"unique-id-format":            {front, harmless, ""},
	"unique-id-header":            {front, onlyHTTP, ""},
	"log":                         {both, lost, "connections are not logged"},
	"log-format":                  {front, lost, "connections are not logged"},
	"log-format-sd":               {front, lost, "connections are not logged"},
	"error-log-format":            {front, lost, "connections are not logged"},
	"log-tag":                     {both, lost, "connections are not logged"},
	"email-alert":                 {both, lost, "no mail is sent when a server goes down: watch the events instead"},
	"declare":                     {front, harmless, ""},
	"load-server-state-from-file": {back, lost, "server states are not loaded from a file"},
	"server-state-file-name":      {back, lost, "server states are not loaded from a file"},
	"grace":                       {both, harmless, ""},
	"clitcpka-cnt":                {front, harmless, ""},
	"clitcpka-idle":               {front, harmless, ""},
	"clitcpka-intvl":              {front, harmless, ""},
	"srvtcpka-cnt":                {back, harmless, ""},
	"srvtcpka-idle":               {back, harmless, ""},
	"srvtcpka-intvl":              {back, harmless, ""},
	"http-request":                {both, onlyHTTP, ""},
	"http-response":               {both, onlyHTTP, ""},
	"http-after-response":         {both, onlyHTTP, ""},
	"http-error":                  {both, onlyHTTP, ""},
	"http-reuse":                  {back, onlyHTTP, ""},
	"http-send-name-header":       {back, onlyHTTP, ""},
	"errorfile":                   {both, onlyHTTP, ""},
	"errorfiles":                  {both, onlyHTTP, ""},
	"errorloc":                    {both, onlyHTTP, ""},
	"errorloc302":                 {both, onlyHTTP, ""},
	"errorloc303":                 {both, onlyHTTP, ""},
	"capture":                     {front, onlyHTTP, ""},
	"redirect":                    {both, onlyHTTP, ""},
	"monitor-uri":                 {front, onlyHTTP, ""},
	"monitor":                     {front, onlyHTTP, ""},
	"stats":                       {both, onlyHTTP, ""},
	"cookie":                      {back, onlyHTTP, ""},
	"retry-on":                    {back, onlyHTTP, ""},
	"max-keep-alive-queue":        {back, onlyHTTP, ""},
	"use-fcgi-app":                {back, onlyHTTP, ""},
}

// processLimits are the keywords of section global that limit the connections of all proxies together.
var processLimits = []string{"maxconn", "maxconnrate", "maxsessrate"}

// options are what follows `option`.
var options = map[string]rule{
	"tcplog":                       {front, lost, "connections are not logged"},
	"httplog":                      {front, onlyHTTP, ""},
	"httpslog":                     {front, onlyHTTP, ""},
	"dontlognull":                  {front, harmless, ""},
	"dontlog-normal":               {front, harmless, ""},
	"logasap":                      {front, harmless, ""},
	"log-separate-errors":          {front, harmless, ""},
	"log-health-checks":            {back, harmless, ""},
	"clitcpka":                     {front, lost, "no keep-alive packets are sent"},
	"srvtcpka":                     {back, lost, "no keep-alive packets are sent"},
	"tcpka":                        {both, lost, "no keep-alive packets are sent"},
	"splice-auto":                  {both, harmless, ""},
	"splice-request":               {both, harmless, ""},
	"splice-response":              {both, harmless, ""},
	"tcp-smart-accept":             {front, harmless, ""},
	"tcp-smart-connect":            {back, harmless, ""},
	"redispatch":                   {back, harmless, ""},
	"nolinger":                     {both, harmless, ""},
	"socket-stats":                 {front, harmless, ""},
	"contstats":                    {front, harmless, ""},
	"abortonclose":                 {back, harmless, ""},
	"allbackups":                   {back, harmless, ""},
	"persist":                      {back, onlyHTTP, ""},
	"independent-streams":          {both, harmless, ""},
	"transparent":                  {back, prevents, "connections go to the address that clients connected to"},
	"ssl-hello-chk":                {back, prevents, "checks of this type are not supported"},
	"ldap-check":                   {back, prevents, "checks of this type are not supported"},
	"mysql-check":                  {back, prevents, "checks of this type are not supported"},
	"pgsql-check":                  {back, prevents, "checks of this type are not supported"},
	"redis-check":                  {back, prevents, "checks of this type are not supported"},
	"smtpchk":                      {back, prevents, "checks of this type are not supported"},
	"spop-check":                   {back, prevents, "checks of this type are not supported"},
	"external-check":               {back, prevents, "an external program checks the servers"},
	"forwardfor":                   {both, onlyHTTP, ""},
	"originalto":                   {both, onlyHTTP, ""},
	"checkcache":                   {back, onlyHTTP, ""},
	"prefer-last-server":           {back, onlyHTTP, ""},
	"http-server-close":            {both, onlyHTTP, ""},
	"httpclose":                    {both, onlyHTTP, ""},
	"http-keep-alive":              {both, onlyHTTP, ""},
	"http-buffer-request":          {both, onlyHTTP, ""},
	"http-ignore-probes":           {front, onlyHTTP, ""},
	"http-no-delay":                {both, onlyHTTP, ""},
	"http-pretend-keepalive":       {back, onlyHTTP, ""},
	"http-use-proxy-header":        {front, onlyHTTP, ""},
	"http-use-htx":                 {both, onlyHTTP, ""},
	"idle-close-on-response":       {front, onlyHTTP, ""},
	"disable-h2-upgrade":           {front, onlyHTTP, ""},
	"h1-case-adjust-bogus-client":  {front, onlyHTTP, ""},
	"h1-case-adjust-bogus-server":  {back, onlyHTTP, ""},
	"accept-invalid-http-request":  {front, onlyHTTP, ""},
	"accept-invalid-http-response": {back, onlyHTTP, ""},
}

// param is a parameter of `bind` or `server`: how many values it has, and what it means.
type param struct {
	values  int
	verdict verdict
	why     string
}

// bindParams are the parameters of `bind`.
var bindParams = map[string]param{
	"name": {1, harmless, ""}, "id": {1, harmless, ""}, "backlog": {1, harmless, ""}, "defer-accept": {0, harmless, ""}, "nice": {1, harmless, ""},
	"process": {1, harmless, ""}, "thread": {1, harmless, ""}, "shards": {1, harmless, ""}, "tfo": {0, harmless, ""}, "v4v6": {0, harmless, ""},
	"v6only": {0, harmless, ""}, "gid": {1, harmless, ""}, "group": {1, harmless, ""}, "uid": {1, harmless, ""}, "user": {1, harmless, ""},
	"mode": {1, harmless, ""}, "tcp-ut": {1, lost, "the kernel's user timeout is not set"},
	"ssl": {0, prevents, "HAProxy terminates TLS"}, "crt": {1, prevents, "HAProxy terminates TLS"}, "crt-list": {1, prevents, "HAProxy terminates TLS"},
	"accept-proxy": {0, prevents, "clients send the PROXY protocol"}, "accept-netscaler-cip": {1, prevents, "clients send a NetScaler header"},
	"maxconn": {1, prevents, "the number of connections is limited"}, "interface": {1, prevents, "it listens on one netdev only"},
	"transparent": {0, prevents, "it accepts connections to addresses that the host does not have"}, "namespace": {1, prevents, "it listens in another namespace"},
	"mss": {1, prevents, "the segment size of connections is limited"},
}

// serverParams are the parameters of `server` that are not read.
var serverParams = map[string]param{
	"id": {1, harmless, ""}, "cookie": {1, onlyHTTP, ""}, "non-stick": {0, harmless, ""}, "tfo": {0, harmless, ""}, "redir": {1, onlyHTTP, ""},
	"pool-low-conn": {1, onlyHTTP, ""}, "pool-max-conn": {1, onlyHTTP, ""}, "pool-purge-delay": {1, onlyHTTP, ""}, "max-reuse": {1, onlyHTTP, ""},
	"on-marked-down": {1, harmless, ""}, "tcp-ut": {1, lost, "the kernel's user timeout is not set"}, "log-proto": {1, harmless, ""},
	"fastinter": {1, lost, "checks use a single interval"}, "downinter": {1, lost, "checks use a single interval"}, "init-addr": {1, harmless, ""},
	"on-marked-up": {1, prevents, "sessions of backup servers are shut down"}, "on-error": {1, prevents, "connections are observed"},
	"error-limit": {1, prevents, "connections are observed"}, "observe": {1, prevents, "connections are observed"},
	"backup": {0, prevents, "it is used only if all others are down"}, "maxconn": {1, prevents, "the number of connections is limited"},
	"minconn": {1, prevents, "the number of connections is limited"}, "maxqueue": {1, prevents, "connections are queued"},
	"send-proxy": {0, prevents, "the server expects the PROXY protocol"}, "send-proxy-v2": {0, prevents, "the server expects the PROXY protocol"},
	"send-proxy-v2-ssl": {0, prevents, "the server expects the PROXY protocol"}, "send-proxy-v2-ssl-cn": {0, prevents, "the server expects the PROXY protocol"},
	"proxy-v2-options": {1, prevents, "the server expects the PROXY protocol"}, "check-send-proxy": {0, prevents, "checks send the PROXY protocol"},
	"ssl": {0, prevents, "HAProxy speaks TLS to the server"}, "check-ssl": {0, prevents, "checks speak TLS"}, "check-sni": {1, prevents, "checks speak TLS"},
	"check-alpn": {1, prevents, "checks speak TLS"}, "check-proto": {1, prevents, "checks speak another protocol"}, "check-via-socks4": {0, prevents, "checks use a SOCKS proxy"},
	"verify": {1, harmless, ""}, "ca-file": {1, harmless, ""}, "crt": {1, harmless, ""}, "sni": {1, harmless, ""}, "alpn": {1, harmless, ""},
	"source": {1, prevents, "connections come from a configured address"}, "usesrc": {1, prevents, "connections come from the client's address"},
	"interface": {1, prevents, "connections are bound to one netdev"}, "slowstart": {1, prevents, "the weight ramps up after the server starts"},
	"track": {1, prevents, "it tracks the state of another server"}, "resolvers": {1, prevents, "the address comes from DNS"},
	"resolve-prefer": {1, prevents, "the address comes from DNS"}, "resolve-net": {1, prevents, "the address comes from DNS"}, "resolve-opts": {1, prevents, "the address comes from DNS"},
	"proto": {1, prevents, "HAProxy speaks another protocol"}, "socks4": {1, prevents, "connections use a SOCKS proxy"},
	"namespace": {1, prevents, "connections leave from another namespace"}, "ws": {1, onlyHTTP, ""},
	"agent-send": {1, prevents, "HAProxy sends the agent a string"}, "shard": {1, harmless, ""},
}
