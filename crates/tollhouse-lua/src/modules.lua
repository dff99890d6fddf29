-- Modules that scripts load with `require`: apisix.core and its parts, cjson, and the clients of other services.
local host, parts = ...

local base, library, wait, headers, vars = parts.base, parts.library, parts.wait, parts.headers, parts.vars
local ngx, levels, joined, encode = parts.ngx, parts.levels, parts.joined, parts.encode
local raw_yield, frozen, ctx_meta = parts.raw_yield, parts.frozen, parts.ctx_meta
local error, type, tostring, tonumber, pairs, ipairs, select = error, type, tostring, tonumber, pairs, ipairs, select
local setmetatable, getmetatable, rawget, rawset, next, unpack = setmetatable, getmetatable, rawget, rawset, next, unpack
local concat, insert, remove, sort = table.concat, table.insert, table.remove, table.sort
local strings = parts.libraries[base.string]
local find, sub, rep = strings.find, strings.sub, strings.rep

local modules = {}

-- apisix.core -----------------------------------------------------------------------------------------------------

local log = {}
for name, level in pairs({ stderr = 0, emerg = 1, alert = 2, crit = 3, error = 4, warn = 5, notice = 6, info = 7, debug = 8 }) do
    log[name] = function(...) host.log(level, joined(...)) end
end
log.new = function() return modules["apisix.core.log"] end

local json = {
    encode = encode,
    encode_pretty = encode,
    stably_encode = encode,
    decode = function(text)
        local value, err = host.json_decode(text)
        if err then return nil, err end
        return value
    end,
    delay_encode = function(value)
        return setmetatable({}, { __tostring = function() return encode(value) or "" end })
    end,
    array_mt = host.array_mt,
}

-- Header names of a request are read without regard to case.
local request = {
    headers = function() return headers() end,
    header = function(ctx, name)
        if type(ctx) == "string" then name = ctx end
        local value = host.header(name)
        return value
    end,
    set_header = function(ctx, name, value)
        if type(ctx) == "string" then name, value = ctx, name end
        host.set_header(name, value)
    end,
    add_header = function(ctx, name, value)
        if type(ctx) == "string" then name, value = ctx, name end
        host.add_header(name, value)
    end,
    get_ip = function() return host.var("realip_remote_addr") or host.var("remote_addr") or "" end,
    get_remote_client_ip = function() return host.var("remote_addr") or "" end,
    get_remote_client_port = function() return tonumber(host.var("remote_port")) or 0 end,
    get_uri_args = function() return host.decode_args(host.var("args") or "") end,
    set_uri_args = function(ctx, args)
        if args == nil then args = ctx end
        if type(args) == "table" then args = host.encode_args(args) end
        host.set_args(tostring(args))
    end,
    get_post_args = function()
        host.ask_body()
        local body = wait() or ""
        return host.decode_args(body)
    end,
    get_body = function(max)
        host.ask_body(type(max) == "number" and max or nil)
        local body, err = wait()
        if err then return nil, err end
        if body == "" then return nil end
        return body
    end,
    get_scheme = function() return host.var("scheme") or "http" end,
    get_host = function() return host.var("host") or "" end,
    get_port = function() return tonumber(host.var("server_port")) or 0 end,
    get_path = function() return host.var("uri") or "" end,
    get_method = host.method,
    set_raw_uri = host.set_uri,
    set_uri = host.set_uri,
    get_http_version = function() return parts.libraries[ngx].req.http_version() end,
    has_header = function(ctx, name) return host.header(name) ~= nil end,
}

local function exit(code, ...)
    local out = {}
    if code ~= nil and type(code) ~= "number" then
        if code ~= false then insert(out, type(code) == "table" and encode(code) .. "\n" or tostring(code)) end
        code = nil
    end
    for i = 1, select("#", ...) do
        local value = (select(i, ...))
        if type(value) == "table" then
            insert(out, encode(value) .. "\n")
        elseif value ~= nil then
            insert(out, tostring(value))
        end
    end
    if #out > 0 then host.print(concat(out)) end
    if code then host.set_status(code) end
    host.exit(code or 200)
    return raw_yield()
end
local function each_pair(set, name, value, ...)
    if type(name) == "table" then
        for key, one in pairs(name) do set(key, one) end
    elseif name ~= nil then
        set(name, value)
        return each_pair(set, ...)
    end
end
local response = {
    exit = exit,
    say = function(...) parts.libraries[ngx].say(...) end,
    set_header = function(...) each_pair(host.set_answer_header, ...) end,
    add_header = function(...) each_pair(host.add_answer_header, ...) end,
    get_upstream_status = function() return tonumber(host.var("upstream_status")) end,
    get_response_source = function() return host.answer_source() end,
    clear_header_as_body_modified = function()
        for _, name in ipairs({ "Content-Length", "Content-Encoding", "Last-Modified", "ETag" }) do
            host.set_answer_header(name, nil)
        end
    end,
    -- Collects the pieces of a body; returns the whole at its end, and nil before.
    hold_body_chunk = function(ctx, keep, max)
        return host.hold_body(max)
    end,
}

local tables = {
    new = function() return {} end,
    clear = function(t) for key in pairs(t) do t[key] = nil end end,
    nkeys = function(t) local n = 0 for _ in pairs(t) do n = n + 1 end return n end,
    insert = insert, concat = concat, sort = base.table.sort, remove = remove,
    insert_tail = function(t, ...)
        local n = #t
        for i = 1, select("#", ...) do t[n + i] = (select(i, ...)) end
        return n + select("#", ...)
    end,
    set = function(t, ...) for i = 1, select("#", ...) do t[i] = (select(i, ...)) end return select("#", ...) end,
    try_read_attr = function(t, ...)
        for i = 1, select("#", ...) do
            if type(t) ~= "table" then return nil end
            t = t[(select(i, ...))]
        end
        return t
    end,
    array_find = function(t, value)
        if type(t) ~= "table" then return nil end
        for i, one in ipairs(t) do if one == value then return i end end
    end,
    setmt__gc = function(t, mt) return setmetatable(t, mt) end,
    pick = function(t, keys)
        local out = {}
        for key, value in pairs(t) do if keys[key] then out[key] = value end end
        return out
    end,
    to_array = function(t)
        local out = {}
        for key, value in pairs(t) do insert(out, key) insert(out, value) end
        return out
    end,
    isarray = function(t)
        if type(t) ~= "table" then return false end
        local n = 0
        for _ in pairs(t) do n = n + 1 end
        return n == #t
    end,
    isempty = function(t) return next(t) == nil end,
}
tables.deepcopy = function(value)
    local seen = {}
    local function copy(one)
        if type(one) ~= "table" or frozen[one] then return one end
        if seen[one] then return seen[one] end
        local out = {}
        seen[one] = out
        for key, item in pairs(one) do out[copy(key)] = copy(item) end
        return setmetatable(out, getmetatable(one))
    end
    return copy(value)
end
tables.clone = function(t)
    local out = {}
    for key, value in pairs(t) do out[key] = value end
    return out
end
tables.merge = function(into, from)
    for key, value in pairs(from) do
        if type(value) == "table" and type(into[key]) == "table" then tables.merge(into[key], value) else into[key] = value end
    end
    return into
end
tables.patch = tables.merge
tables.deep_eq = function(a, b)
    if type(a) ~= "table" or type(b) ~= "table" then return a == b end
    for key, value in pairs(a) do if not tables.deep_eq(value, b[key]) then return false end end
    for key in pairs(b) do if a[key] == nil then return false end end
    return true
end

local core_string = {
    find = function(s, needle, from) return find(s, needle, from, true) end,
    has_prefix = function(s, prefix) return sub(s, 1, #prefix) == prefix end,
    has_suffix = function(s, suffix) return suffix == "" or sub(s, -#suffix) == suffix end,
    rfind_char = function(s, char, from)
        for i = from or #s, 1, -1 do if sub(s, i, i) == char then return i end end
    end,
    format = strings.format, lower = strings.lower, upper = strings.upper, sub = sub, byte = strings.byte,
    char = strings.char, rep = rep, gsub = strings.gsub, match = strings.match, gmatch = strings.gmatch,
    len = strings.len, reverse = strings.reverse,
    trim = function(s) return (strings.gsub(s, "^%s*(.-)%s*$", "%1")) end,
}

local utils = {
    split = function(s, separator)
        local out, at = {}, 1
        if s == "" then return { "" } end
        while true do
            local from, to = find(s, separator, at, true)
            if not from or to < from then break end
            insert(out, sub(s, at, from - 1))
            at = to + 1
        end
        insert(out, sub(s, at))
        return out
    end,
    uri_safe_encode = host.escape_uri,
    uuid = host.uuid, generate_uuid = host.uuid,
    gethostname = function() return host.var("hostname") or "" end,
    sleep = function(seconds) host.ask_sleep(seconds) wait() end,
    resolve_var = function(text, ctx)
        return (strings.gsub(text, "%${?([%w_%.]+)}?", function(name)
            local value = host.var(name)
            return value == nil and "" or tostring(value)
        end))
    end,
    validate_header_field = function(name)
        if type(name) ~= "string" or name == "" or find(name, "[^%w%-_]") then return false, "invalid header" end
        return true
    end,
    validate_header_value = function(value)
        if type(value) ~= "string" then return true end
        if find(value, "[\r\n%z]") then return false, "invalid header value" end
        return true
    end,
    parse_addr = function(address)
        local host_part, port = strings.match(address, "^(.-):(%d+)$")
        return host_part or address, tonumber(port)
    end,
    get_root_conf = function(name, conf, ctx) return conf end,
}

-- Values that are made once and kept: by key and version, or for a time.
local lru = {}
local function lru_new(options)
    local ttl, count = options and options.ttl or 300, options and options.count or 512
    local store, order = {}, {}
    return function(key, version, make, ...)
        local found = store[key]
        local now = host.now()
        if found and found.version == version and (options and options.type or found.until_time > now) then
            return found.value
        end
        local value, err = make(...)
        if value == nil then return nil, err end
        if not found then
            insert(order, key)
            if #order > count then store[remove(order, 1)] = nil end
        end
        store[key] = { value = value, version = version, until_time = now + ttl }
        return value
    end
end
lru.new = lru_new
lru.plugin_ctx = function(cache, ctx, extra, make, ...)
    return cache(tostring(host.instance()) .. "#" .. tostring(extra), host.version(), make, ...)
end
lru.plugin_ctx_key_and_ver = function(ctx, extra)
    return tostring(host.instance()) .. "#" .. tostring(extra), host.version()
end
lru.global = lru_new({})

local schema = {
    TYPE_CONSUMER = 1, TYPE_METADATA = 2, TYPE_PLUGIN = 0,
    check = function(document, value)
        return host.check_schema(document, value)
    end,
    valid = function() return true end,
    uri_def = { type = "string", pattern = [=[^[^\/]+:\/\/([\da-zA-Z.-]+|\[[\da-fA-F:]+\])(:\d+)?]=] },
    id_schema = { anyOf = { { type = "string", minLength = 1, maxLength = 64, pattern = "^[a-zA-Z0-9-_.]+$" },
        { type = "integer", minimum = 1 } } },
    host_def_pat = "^\\*?[0-9a-zA-Z-._\\[\\]:]+$",
    host_def = { type = "string", pattern = "^\\*?[0-9a-zA-Z-._\\[\\]:]+$" },
    ip_def = { { type = "string", format = "ipv4" }, { type = "string", format = "ipv6" } },
}

local ctx = {
    register_var = function(name, getter) host.register_var(name, getter) end,
    set_vars_meta = function() end,
    release_vars = function() end,
}

local function part(name, contents)
    local proxy = library("core." .. name, contents)
    modules["apisix.core." .. name] = proxy
    return proxy
end
local core = {
    version = library("core.version", { VERSION = "3.18.0" }),
    log = part("log", log), json = part("json", json), request = part("request", request),
    response = part("response", response), table = part("table", tables), string = part("string", core_string),
    utils = part("utils", utils), lrucache = part("lrucache", lru), schema = part("schema", schema),
    ctx = part("ctx", ctx), tablepool = library("core.tablepool", {
        fetch = function() return {} end, release = function() end }),
    empty_tab = setmetatable({}, { __newindex = function() error("attempt to change core.empty_tab", 2) end }),
    sleep = function(seconds) host.ask_sleep(seconds) wait() end,
    time = library("core.time", { now = host.now, update_time = function() end }),
}
frozen[core.empty_tab] = true
modules["apisix.core"] = library("core", core)
modules["apisix.core.version"] = core.version

modules["apisix.plugin"] = library("apisix.plugin", {
    plugin_attr = function(name) return host.plugin_attr(name) end,
    plugin_metadata = function(name)
        local value = host.plugin_metadata(name)
        return value and { value = value } or nil
    end,
    conf_version = function() return host.version() end,
})
modules["apisix.core.id"] = library("core.id", { get = function() return "tollhouse" end })
modules["tollhouse"] = library("tollhouse", {
    -- Names the user under whom a request is admitted, so that caches tell users apart.
    note_identity = function(name, grant) host.note_identity(tostring(name), tostring(grant or "")) end,
})

-- Other modules ---------------------------------------------------------------------------------------------------

modules.cjson, modules["cjson.safe"] = parts.cjson, parts.cjson_safe
modules.bit, modules.string, modules.table, modules.math = base.bit, base.string, base.table, base.math
modules.ngx, modules["resty.core"] = ngx, library("resty.core", { version = "0.1.32" })
modules["table.new"] = function() return {} end
modules["table.clear"], modules["table.nkeys"], modules["table.clone"] = tables.clear, tables.nkeys, tables.clone
modules["table.isarray"], modules["table.isempty"] = tables.isarray, tables.isempty
modules["ngx.re"] = library("ngx.re", {
    split = function(s, pattern, options, context, max)
        local out, at, n = {}, 1, 0
        local re = parts.libraries[ngx].re
        while at <= #s and (not max or max <= 0 or n < max - 1) do
            local from, to = re.find(s, pattern, options, { pos = at })
            if not from or to < from then break end
            n = n + 1
            out[n] = sub(s, at, from - 1)
            at = to + 1
        end
        out[n + 1] = sub(s, at)
        return out
    end,
})
modules["ngx.base64"] = library("ngx.base64", {
    encode_base64url = host.encode_base64url, decode_base64url = host.decode_base64url })
modules["resty.string"] = library("resty.string", {
    to_hex = host.to_hex,
    atoi = function(s) return tonumber(strings.match(s, "^%d+") or 0) end,
})
local function digest(name)
    local methods = {}
    methods.__index = methods
    methods.new = function() return setmetatable({ parts = {} }, methods) end
    methods.update = function(self, text) insert(self.parts, text) return true end
    methods.final = function(self) return host.digest(name, concat(self.parts)) end
    methods.reset = function(self) self.parts = {} return true end
    return methods
end
for _, name in ipairs({ "md5", "sha1", "sha224", "sha256", "sha384", "sha512" }) do modules["resty." .. name] = digest(name) end
do
    local hmac = { ALGOS = { MD5 = "md5", SHA1 = "sha1", SHA256 = "sha256", SHA512 = "sha512" } }
    hmac.__index = hmac
    hmac.new = function(_, key, algorithm) return setmetatable({ key = key, algorithm = algorithm or "md5", parts = {} }, hmac) end
    hmac.update = function(self, text) insert(self.parts, text) return true end
    hmac.final = function(self, text, hex)
        if text then insert(self.parts, text) end
        local bytes = host.hmac(self.algorithm, self.key, concat(self.parts))
        return hex and host.to_hex(bytes) or bytes
    end
    hmac.reset = function(self) self.parts = {} return true end
    modules["resty.hmac"] = hmac
end
modules["resty.random"] = library("resty.random", { bytes = function(n) return host.random_bytes(n) end })

-- JSON Web Tokens, signed with a shared secret.
do
    local jwt = {}
    local algorithms = { HS256 = "sha256", HS384 = "sha384", HS512 = "sha512" }
    local function split(token)
        return strings.match(token, "^([%w%-_]+)%.([%w%-_]+)%.([%w%-_]*)$")
    end
    jwt.load_jwt = function(_, token)
        local head, body, signature = split(tostring(token))
        local object = { valid = false, verified = false, raw_header = head, raw_payload = body, signature = signature }
        if not head then object.reason = "invalid jwt string" return object end
        object.header = host.json_decode(host.decode_base64url(head) or "")
        object.payload = host.json_decode(host.decode_base64url(body) or "")
        if type(object.header) ~= "table" or type(object.payload) ~= "table" then
            object.reason = "invalid header or payload"
            return object
        end
        object.valid = true
        return object
    end
    jwt.verify_jwt_obj = function(_, secret, object)
        object.verified = false
        if not object.valid then return object end
        local digest_name = algorithms[object.header.alg]
        if not digest_name then
            object.reason = "algorithm " .. tostring(object.header.alg) .. " is not available: HS256, HS384 and HS512 are"
            return object
        end
        local expected = host.hmac(digest_name, secret, object.raw_header .. "." .. object.raw_payload)
        if not host.equal(expected, host.decode_base64url(object.signature) or "") then
            object.reason = "signature mismatch: " .. tostring(object.signature)
            return object
        end
        local now = host.now()
        if type(object.payload.exp) == "number" and object.payload.exp < now then
            object.reason = "'exp' claim expired at " .. host.http_time(object.payload.exp)
            return object
        end
        if type(object.payload.nbf) == "number" and object.payload.nbf > now then
            object.reason = "'nbf' claim not valid until " .. host.http_time(object.payload.nbf)
            return object
        end
        object.verified, object.reason = true, "everything is awesome~ :p"
        return object
    end
    jwt.verify = function(self, secret, token) return jwt.verify_jwt_obj(self, secret, jwt.load_jwt(self, token)) end
    jwt.sign = function(_, secret, object)
        local digest_name = algorithms[object.header and object.header.alg or ""]
        if not digest_name then error("algorithm is not available: HS256, HS384 and HS512 are", 2) end
        local text = host.encode_base64url(encode(object.header)) .. "." .. host.encode_base64url(encode(object.payload))
        return text .. "." .. host.encode_base64url(host.hmac(digest_name, secret, text))
    end
    modules["resty.jwt"] = library("resty.jwt", jwt)
end

-- HTTP client. A request suspends the script; other requests of the core run meanwhile.
do
    local http = {}
    http.__index = http
    http.new = function() return setmetatable({ timeout = 60000, at = false }, http) end
    http.set_timeout = function(self, ms) self.timeout = ms end
    http.set_timeouts = function(self, connect, send, read) self.timeout = math.max(connect or 0, send or 0, read or 0) end
    http.set_keepalive = function() return 1 end
    http.close = function() return 1 end
    http.get_reused_times = function() return 0 end
    http.parse_uri = function(_, uri, query_in_path)
        local scheme, host_part, port, path = strings.match(uri, "^(https?)://([^:/]+):?(%d*)(.*)$")
        if not scheme then return nil, "bad uri: " .. tostring(uri) end
        if path == "" then path = "/" end
        local query = ""
        if query_in_path == false then path, query = strings.match(path, "^([^?]*)%??(.*)$") end
        return { scheme, host_part, tonumber(port) or (scheme == "https" and 443 or 80), path, query }
    end
    http.escape_uri = function(_, text) return host.escape_uri(text) end
    http.encode_args = function(_, args) return host.encode_args(args) end
    local function ask(self, uri, params)
        params = params or {}
        if params.query then
            local query = type(params.query) == "table" and host.encode_args(params.query) or params.query
            uri = uri .. (find(uri, "?", 1, true) and "&" or "?") .. query
        end
        local body = params.body
        if type(body) == "function" then
            local all = {}
            for piece in body do insert(all, piece) end
            body = concat(all)
        elseif type(body) == "table" then
            body = concat(body)
        end
        host.ask_http(params.method or "GET", uri, params.headers, body, self.timeout, params.ssl_verify ~= false)
        local reply, err = wait()
        if not reply then return nil, err end
        setmetatable(reply.headers, getmetatable(headers()))
        local text = reply.body
        reply.has_body = #text > 0
        reply.read_body = function() return text end
        reply.body_reader = function()
            local rest = text
            text = nil
            return rest
        end
        return reply
    end
    http.request_uri = function(self, uri, params) return ask(self, uri, params) end
    http.connect = function(self, options, port)
        if type(options) == "table" then
            self.at = (options.scheme or "http") .. "://" .. options.host .. ":" .. (options.port or (options.scheme == "https" and 443 or 80))
        else
            self.at = "http://" .. options .. ":" .. (port or 80)
        end
        return true
    end
    http.ssl_handshake = function(self)
        if self.at then self.at = strings.gsub(self.at, "^http:", "https:") end
        return true
    end
    http.request = function(self, params)
        if not self.at then return nil, "not connected" end
        local reply, err = ask(self, self.at .. (params.path or "/"), params)
        if reply then reply.body = nil end
        return reply, err
    end
    modules["resty.http"] = http
    modules["resty.http_headers"] = library("resty.http_headers", { new = function() return setmetatable({}, getmetatable(headers())) end })
end

-- Redis client: every method is a command.
do
    local redis = {}
    local own = {}
    own.new = function()
        return setmetatable({ timeout = 60000, database = 0, pipeline = false, address = false, port = 0, tls = false,
            username = false, password = false }, redis)
    end
    own.set_timeout = function(self, ms) self.timeout = ms end
    own.set_timeouts = function(self, connect, send, read) self.timeout = math.max(connect or 0, send or 0, read or 0) end
    own.connect = function(self, address, port, options)
        self.address, self.port = address, type(port) == "number" and port or 6379
        options = type(port) == "table" and port or options or {}
        self.tls = options.ssl and true or false
        return 1
    end
    own.set_keepalive = function() return 1 end
    own.close = function() return 1 end
    own.get_reused_times = function() return 0 end
    own.array_to_hash = function(_, t)
        local out = {}
        for i = 1, #t, 2 do out[t[i]] = t[i + 1] end
        return out
    end
    local function command(self, name, ...)
        if self.pipeline then
            insert(self.pipeline, { name, ... })
            return "QUEUED"
        end
        if not self.address then return nil, "not initialized" end
        host.ask_redis(self.address, self.port, self.tls, self.timeout, self.username, self.password, self.database, { name, ... })
        local value, err = wait()
        if err then return value, err end
        return value
    end
    own.auth = function(self, user, password)
        if password then self.username, self.password = user, password else self.password = user end
        return "OK"
    end
    own.select = function(self, database) self.database = tonumber(database) or 0 return "OK" end
    own.init_pipeline = function(self) self.pipeline = {} end
    own.cancel_pipeline = function(self) self.pipeline = false end
    own.commit_pipeline = function(self)
        local queued = self.pipeline or {}
        self.pipeline = false
        local out = {}
        for i, one in ipairs(queued) do
            local value, err = command(self, unpack(one))
            if err then value = { false, err } end
            out[i] = value
        end
        return out
    end
    redis.__index = function(_, name)
        return own[name] or function(self, ...) return command(self, name, ...) end
    end
    own.null = host.null
    modules["resty.redis"] = setmetatable({}, { __index = own, __newindex = function() error("attempt to change resty.redis", 2) end, __metatable = false })
    frozen[modules["resty.redis"]] = true
end
-- Objects with methods are shared by all scripts, so that they cannot be changed either.
for name, module in pairs(modules) do
    if type(module) == "table" and not frozen[module] then modules[name] = library(name, module) end
end

base.require = function(name)
    local found = modules[name]
    if found ~= nil then return found end
    local own = host.load_module(name)
    if own == nil then
        error("module '" .. tostring(name) .. "' is not available: docs/guides/lua.md lists the modules, and "
            .. "scripting.folder may hold modules of your own", 2)
    end
    return own
end

local function new_ctx()
    return setmetatable({}, ctx_meta)
end

-- Context of all requests, for functions of which the text shows that they only use its variables.
local function variables_ctx()
    return setmetatable({ var = vars }, { __newindex = function() error("attempt to change a shared context", 2) end,
        __metatable = false })
end

-- Returns the function of a phase of one plugin: it takes the context, and runs the functions until one answers.
local function bound(functions, takes_conf, conf)
    local first = functions[1]
    if not takes_conf then return first end
    if #functions == 1 then return function(ctx) return first(conf, ctx) end end
    return function(ctx)
        for i = 1, #functions do
            local code, body = functions[i](conf, ctx)
            if code or body then return code, body end
        end
    end
end

-- Body of a coroutine that runs one function after the other, so that a request makes none of its own.
local function pump(done)
    return function(f, a, b, c)
        while true do f, a, b, c = raw_yield(done, f(a, b, c)) end
    end
end

return { modules = modules, new_ctx = new_ctx, variables_ctx = variables_ctx, bound = bound, pump = pump }
