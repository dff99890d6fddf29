-- The environment of scripts, built once for each state. `host` has the functions of the gateway; scripts cannot
-- reach it, because only the closures below hold it.
local host = ...

local error, type, tostring, pairs, ipairs, select = error, type, tostring, pairs, ipairs, select
local setmetatable, getmetatable, rawget, rawset, unpack = setmetatable, getmetatable, rawget, rawset, unpack
local raw_yield, raw_resume = coroutine.yield, coroutine.resume
local raw_create, raw_status, raw_running = coroutine.create, coroutine.status, coroutine.running
local concat, insert, sort = table.concat, table.insert, table.sort
local waiting = host.waiting

-- Contents of each library, by the proxy that scripts see.
local libraries = setmetatable({}, { __mode = "k" })
local frozen = setmetatable({}, { __mode = "k" })
local metatables = setmetatable({}, { __mode = "k" })

-- Fields of the context of a request that come from the gateway; scripts add their own. A context without such fields
-- serves another request after its own.
local ctx_meta = {}

local function missing(name)
    error(name .. " is not available: scripts have the part of Lua and OpenResty that docs/guides/lua.md lists", 3)
end

local function library(name, contents)
    local proxy = {}
    libraries[proxy] = contents
    frozen[proxy] = true
    local fallback = setmetatable({}, {
        __index = function(_, key) missing(name .. "." .. tostring(key)) end,
    })
    -- A missing member is an error; `fallback` makes it one without a call for each good access.
    setmetatable(contents, { __index = fallback })
    metatables[proxy] = {
        __index = contents,
        __newindex = function(_, key)
            error("attempt to change " .. name .. "." .. tostring(key) .. ": libraries are shared by all scripts", 2)
        end,
        __metatable = false,
    }
    return setmetatable(proxy, metatables[proxy])
end

-- Waits -----------------------------------------------------------------------------------------------------------

-- Suspends the script until the gateway has done what `ask` has noted, and returns the result.
local function wait()
    return raw_yield()
end

-- Hands waits of an inner coroutine on to the outermost one, so that they work in coroutines of scripts too.
local function handed_on(co, ok, ...)
    while ok and waiting() do
        return handed_on(co, raw_resume(co, raw_yield()))
    end
    if ok then return ok, ... end
    local err = ...
    if type(err) == "userdata" and err ~= host.null then err = host.error_text(err) end
    return ok, err
end

local coroutines = {
    create = function(f)
        if type(f) ~= "function" then error("bad argument #1 to 'create' (function expected)", 2) end
        return raw_create(f)
    end,
    resume = function(co, ...)
        return handed_on(co, raw_resume(co, ...))
    end,
    yield = raw_yield,
    status = raw_status,
    running = raw_running,
}
local function unwrapped(ok, ...)
    if not ok then error((...), 0) end
    return ...
end
coroutines.wrap = function(f)
    local co = coroutines.create(f)
    return function(...)
        return unwrapped(handed_on(co, raw_resume(co, ...)))
    end
end

-- Basic library ---------------------------------------------------------------------------------------------------

-- Errors of the gateway's own functions are objects; scripts get them as texts. A limit ends the script here too.
local function readable(ok, ...)
    if ok then return ok, ... end
    local err = ...
    if type(err) == "userdata" and err ~= host.null then err = host.error_text(err) end
    return ok, err
end
local raw_pcall, raw_xpcall = pcall, xpcall

local base = {
    assert = assert, error = error, ipairs = ipairs, next = next, pairs = pairs, rawequal = rawequal,
    rawget = rawget, select = select, tonumber = tonumber, tostring = tostring, type = type, unpack = unpack,
    _VERSION = _VERSION,
    pcall = function(f, ...) return readable(raw_pcall(f, ...)) end,
    xpcall = function(f, handler, ...)
        local arguments, n = { ... }, select("#", ...)
        return raw_xpcall(function() return f(unpack(arguments, 1, n)) end, function(err)
            if type(err) == "userdata" and err ~= host.null then err = host.error_text(err) end
            return handler(err)
        end)
    end,
    getmetatable = function(value)
        if type(value) == "string" then return nil end
        local meta = getmetatable(value)
        -- All requests share it.
        if meta == ctx_meta then return nil end
        return meta
    end,
    setmetatable = function(t, meta)
        if frozen[t] then error("attempt to change a library, which all scripts share", 2) end
        -- A finaliser would run outside of the limits of its request.
        if type(meta) == "table" and rawget(meta, "__gc") ~= nil then error("__gc is not available", 2) end
        return setmetatable(t, meta)
    end,
    rawset = function(t, key, value)
        if frozen[t] then error("attempt to change a library, which all scripts share", 2) end
        return rawset(t, key, value)
    end,
    collectgarbage = function(option)
        if option == "count" then return host.memory() / 1024, 0 end
        return 0
    end,
}

local strings = {}
for name, value in pairs(string) do strings[name] = value end
strings.dump, strings.gfind = nil, nil
strings.rep, strings.find, strings.match = host.rep, host.find, host.match
strings.gsub = host.gsub
-- These read a whole text and count as one instruction, so that long texts are checked.
for _, name in ipairs({ "upper", "lower", "reverse" }) do
    local of_whole = strings[name]
    strings[name] = function(s)
        if type(s) == "string" and #s > 16384 then host.check_time() end
        return of_whole(s)
    end
end
local raw_sub = strings.sub
strings.sub = function(s, i, j)
    if type(s) == "string" and #s > 16384 then host.check_time() end
    return raw_sub(s, i, j)
end
strings.gmatch = function(s, pattern)
    local at, len = 1, #s
    return function()
        if at > len + 1 then return nil end
        return host.gmatch_step(s, pattern, at, function(next_at) at = next_at end)
    end
end
-- Every string uses the bounded functions, also as a method.
do
    local meta = getmetatable("")
    meta.__index = strings
    meta.__metatable = false
end

local tables = { concat = function(t, separator, i, j)
        if type(t) == "table" and #t > 256 then host.check_time() end
        return concat(t, separator, i, j)
    end, insert = table.insert, remove = table.remove, maxn = table.maxn }
tables.sort = function(t, less)
    if #t > 10000 then error("table.sort of more than 10000 items is not available", 2) end
    return sort(t, less)
end
tables.unpack = unpack
tables.getn = function(t) return #t end

base.coroutine = library("coroutine", coroutines)
base.string = library("string", strings)
base.table = library("table", tables)
local maths = {}
for name, value in pairs(math) do maths[name] = value end
maths.randomseed = function() end
base.math = library("math", maths)
local bits = {}
for name, value in pairs(bit) do bits[name] = value end
base.bit = library("bit", bits)
base.os = library("os", {
    time = function(t) if t == nil then return host.seconds() end return host.mktime(t) end,
    clock = host.now,
    date = host.date,
    getenv = function() return nil end,
})

-- Environments ----------------------------------------------------------------------------------------------------

-- Globals of a request: written by its functions, dropped with it.
setmetatable(base, {
    __index = function(_, name)
        local globals = host.globals(false)
        local value = globals and rawget(globals, name)
        if value == nil then
            error("global '" .. tostring(name) .. "' is not available: declare it with local, or see docs/guides/lua.md", 2)
        end
        return value
    end,
})

local function environment()
    local env = {}
    setmetatable(env, {
        __index = base,
        __newindex = function(t, name, value)
            if rawget(base, name) ~= nil then
                error("attempt to change the built-in global '" .. tostring(name) .. "'", 2)
            end
            local globals = host.globals(true)
            if globals then rawset(globals, name, value) else rawset(t, name, value) end
        end,
        __metatable = false,
    })
    rawset(env, "_G", env)
    frozen[env] = nil
    return env
end

base.load = function(text, name, mode, env)
    if type(text) == "function" then
        local parts = {}
        while true do
            local part = text()
            if not part or part == "" then break end
            parts[#parts + 1] = part
        end
        text = concat(parts)
    end
    return host.load(text, name, env or environment())
end
base.loadstring = function(text, name)
    return host.load(text, name, environment())
end

-- JSON ------------------------------------------------------------------------------------------------------------

local null = host.null
local array_mt = host.array_mt

local function encode(value)
    local text, err = host.json_encode(value)
    if err then return nil, err end
    return text
end
local cjson_contents = {
    null = null, empty_array = host.empty_array, array_mt = array_mt, empty_array_mt = array_mt, version = "2.1.0",
    encode = function(value)
        local text, err = encode(value)
        if not text then error(err, 2) end
        return text
    end,
    decode = function(text)
        local value, err = host.json_decode(text)
        if err then error(err, 2) end
        return value
    end,
    encode_empty_table_as_object = function() end,
    decode_array_with_array_mt = function() end,
    encode_number_precision = function() end,
    encode_sparse_array = function() end,
    encode_escape_forward_slash = function() end,
    decode_big_numbers_as_strings = function() end,
    encode_max_depth = function() end,
    decode_max_depth = function() end,
}
local safe_contents = {}
for name, value in pairs(cjson_contents) do safe_contents[name] = value end
safe_contents.encode = encode
safe_contents.decode = function(text)
    local value, err = host.json_decode(text)
    if err then return nil, err end
    return value
end
local cjson = library("cjson", cjson_contents)
local cjson_safe = library("cjson.safe", safe_contents)
cjson_contents.new = function() return cjson end
safe_contents.new = function() return cjson_safe end

-- ngx -------------------------------------------------------------------------------------------------------------

local levels = { STDERR = 0, EMERG = 1, ALERT = 2, CRIT = 3, ERR = 4, WARN = 5, NOTICE = 6, INFO = 7, DEBUG = 8 }

local function joined(...)
    local n = select("#", ...)
    if n == 1 then return tostring((...)) end
    local parts = {}
    for i = 1, n do parts[i] = tostring((select(i, ...))) end
    return concat(parts)
end

local ngx = {
    null = null,
    OK = 0, ERROR = -1, AGAIN = -2, DONE = -4, DECLINED = -5,
    HTTP_GET = 2, HTTP_HEAD = 4, HTTP_POST = 8, HTTP_PUT = 16, HTTP_DELETE = 32, HTTP_OPTIONS = 512,
    HTTP_PATCH = 16384, HTTP_TRACE = 32768,
    HTTP_CONTINUE = 100, HTTP_SWITCHING_PROTOCOLS = 101, HTTP_OK = 200, HTTP_CREATED = 201, HTTP_ACCEPTED = 202,
    HTTP_NO_CONTENT = 204, HTTP_PARTIAL_CONTENT = 206, HTTP_SPECIAL_RESPONSE = 300, HTTP_MOVED_PERMANENTLY = 301,
    HTTP_MOVED_TEMPORARILY = 302, HTTP_SEE_OTHER = 303, HTTP_NOT_MODIFIED = 304, HTTP_TEMPORARY_REDIRECT = 307,
    HTTP_PERMANENT_REDIRECT = 308, HTTP_BAD_REQUEST = 400, HTTP_UNAUTHORIZED = 401, HTTP_PAYMENT_REQUIRED = 402,
    HTTP_FORBIDDEN = 403, HTTP_NOT_FOUND = 404, HTTP_NOT_ALLOWED = 405, HTTP_NOT_ACCEPTABLE = 406,
    HTTP_REQUEST_TIMEOUT = 408, HTTP_CONFLICT = 409, HTTP_GONE = 410, HTTP_UPGRADE_REQUIRED = 426,
    HTTP_TOO_MANY_REQUESTS = 429, HTTP_CLOSE = 444, HTTP_ILLEGAL = 451, HTTP_INTERNAL_SERVER_ERROR = 500,
    HTTP_NOT_IMPLEMENTED = 501, HTTP_METHOD_NOT_IMPLEMENTED = 501, HTTP_BAD_GATEWAY = 502,
    HTTP_SERVICE_UNAVAILABLE = 503, HTTP_GATEWAY_TIMEOUT = 504, HTTP_VERSION_NOT_SUPPORTED = 505,
    HTTP_INSUFFICIENT_STORAGE = 507,
    time = host.seconds, now = host.now, update_time = function() end,
    today = function() return host.date("%Y-%m-%d") end,
    localtime = function() return host.date("%Y-%m-%d %H:%M:%S") end,
    utctime = function() return host.date("!%Y-%m-%d %H:%M:%S") end,
    http_time = host.http_time, cookie_time = host.cookie_time, parse_http_time = host.parse_http_time,
    encode_base64 = host.encode_base64, decode_base64 = host.decode_base64,
    md5 = host.md5, md5_bin = host.md5_bin, sha1_bin = host.sha1_bin, hmac_sha1 = host.hmac_sha1,
    crc32_long = host.crc32, crc32_short = host.crc32,
    escape_uri = host.escape_uri, unescape_uri = host.unescape_uri,
    encode_args = host.encode_args, decode_args = host.decode_args,
    quote_sql_str = function(s) return "'" .. (s:gsub("[%z\n\r\\'\"\026]", "\\%0")) .. "'" end,
    get_phase = host.phase,
    is_subrequest = false,
    headers_sent = false,
    sleep = function(seconds)
        host.ask_sleep(seconds)
        wait()
    end,
    log = function(level, ...) host.log(level, joined(...)) end,
    exit = function(code)
        host.exit(code)
        return raw_yield()
    end,
    redirect = function(uri, status)
        host.redirect(uri, status or 302)
        return raw_yield()
    end,
    flush = function() return 1 end,
    eof = function() return 1 end,
    send_headers = function() return 1 end,
    on_abort = function() return 1 end,
    worker = library("ngx.worker", { id = host.worker_id, pid = host.worker_id, count = function() return 1 end,
        exiting = function() return false end }),
    config = library("ngx.config", { subsystem = "http", ngx_lua_version = 10028, nginx_version = 1027001,
        debug = false, prefix = function() return "" end }),
}
for name, level in pairs(levels) do ngx[name] = level end

local function write(value, out, depth)
    local kind = type(value)
    if kind == "table" then
        if depth > 20 then error("bad argument to 'print': nested too deeply", 0) end
        for _, item in ipairs(value) do write(item, out, depth + 1) end
    elseif value == null then
        insert(out, "null")
    else
        insert(out, tostring(value))
    end
end
ngx.print = function(...)
    local out = {}
    for i = 1, select("#", ...) do write((select(i, ...)), out, 0) end
    host.print(concat(out))
    return 1
end
ngx.say = function(...)
    local out = {}
    for i = 1, select("#", ...) do write((select(i, ...)), out, 0) end
    insert(out, "\n")
    host.print(concat(out))
    return 1
end

local function set_var(_, name, value) host.set_var(name, value) end
local vars = setmetatable({}, { __index = host.var_index, __newindex = set_var, __metatable = false })
frozen[vars] = true
-- Path and host of the route that took the request, and the parameters of its path.
local matched = setmetatable({}, { __index = function(_, name)
    if name == "_path" then return host.var("matched_uri") end
    if name == "_host" then return host.var("matched_host") end
    if name == ":ext" then
        local path, uri = host.var("matched_uri"), host.var("uri")
        if path and uri and path:sub(-1) == "*" then return uri:sub(#path) end
        return nil
    end
    if type(name) == "string" then return host.var("uri_param_" .. name) end
end, __newindex = function() error("attempt to change ctx.curr_req_matched", 2) end, __metatable = false })
frozen[matched] = true
ctx_meta.__index = setmetatable({ var = vars }, { __index = function(_, name)
    if name == "curr_req_matched" then return host.var("matched_uri") and matched or nil end
    if type(name) == "string" then return host.ctx_field(name) end
end })
-- Like `ctx.var`, but names of arguments are in any case, as in nginx.
ngx.var = setmetatable({}, { __index = host.nginx_var_index, __newindex = set_var, __metatable = false })
frozen[ngx.var] = true
ngx.header = setmetatable({}, { __index = function(_, name) return host.answer_header(name) end,
    __newindex = function(_, name, value) host.set_answer_header(name, value) end, __metatable = false })
frozen[ngx.header] = true
ngx.arg = setmetatable({}, { __index = function(_, index) return host.arg(index) end,
    __newindex = function(_, index, value) host.set_arg(index, value) end, __metatable = false })
frozen[ngx.arg] = true

local header_meta = { __index = function(t, name)
    if type(name) ~= "string" then return nil end
    return rawget(t, (name:lower():gsub("_", "-")))
end }
local function headers()
    return setmetatable(host.headers(), header_meta)
end

ngx.req = library("ngx.req", {
    get_headers = function() return headers() end,
    get_method = host.method,
    set_method = host.set_method,
    set_header = host.set_header,
    clear_header = function(name) host.set_header(name, nil) end,
    get_uri_args = function() return host.decode_args(host.var("args") or "") end,
    set_uri_args = function(args)
        if type(args) == "table" then args = host.encode_args(args) end
        host.set_args(tostring(args))
    end,
    set_uri = host.set_uri,
    read_body = function()
        host.ask_body()
        local _, err = wait()
        if err then error(err, 0) end
    end,
    get_body_data = host.body,
    get_body_file = function() return nil end,
    set_body_data = host.set_body,
    discard_body = function() end,
    get_post_args = function()
        local body = host.body()
        if not body then return nil, "no request body: call ngx.req.read_body first" end
        return host.decode_args(body)
    end,
    http_version = function()
        return host.var("server_protocol") == "HTTP/2.0" and 2 or (host.var("server_protocol") == "HTTP/1.0" and 1.0 or 1.1)
    end,
    start_time = host.start_time,
    is_internal = function() return false end,
    raw_header = host.raw_header,
})
ngx.resp = library("ngx.resp", {
    get_headers = function() return setmetatable(host.answer_headers(), header_meta) end,
    add_header = host.add_answer_header,
})

local re = {}
re.match = function(subject, pattern, options, context, into)
    local found, _, to, err = host.re_match(tostring(subject), pattern, options or "", context and context.pos or 1)
    if err then return nil, err end
    if found and context then context.pos = to + 1 end
    if found and into then
        for key in pairs(into) do into[key] = nil end
        for key, value in pairs(found) do into[key] = value end
        return into
    end
    return found
end
re.find = function(subject, pattern, options, context, nth)
    local found, from, to, err = host.re_find(tostring(subject), pattern, options or "", context and context.pos or 1, nth or 0)
    if err then return nil, nil, err end
    if found and context then context.pos = to + 1 end
    if not found then return nil end
    return from, to
end
re.gmatch = function(subject, pattern, options)
    subject = tostring(subject)
    local at = 1
    return function()
        if at > #subject + 1 then return nil end
        local found, from, to, err = host.re_match(subject, pattern, options or "", at)
        if err then return nil, err end
        if not found then at = #subject + 2 return nil end
        at = to >= from and to + 1 or to + 2
        return found
    end
end
local function expanded(template, found)
    return (template:gsub("%$(%$?)({?)(%w*)(}?)", function(dollar, open, name, close)
        if dollar == "$" then return "$" .. open .. name .. close end
        local key, rest = name, ""
        if open == "" then
            key = name:match("^%d+") or ""
            rest = name:sub(#key + 1) .. close
        end
        local value = found[tonumber(key) or key]
        return (value or "") .. rest
    end))
end
local function substitute(subject, pattern, replacement, options, many)
    subject = tostring(subject)
    local out, at, last, count = {}, 1, 1, 0
    while at <= #subject + 1 do
        local found, from, to, err = host.re_match(subject, pattern, options or "", at)
        if err then return nil, nil, err end
        if not found then break end
        count = count + 1
        insert(out, subject:sub(last, from - 1))
        if type(replacement) == "function" then
            insert(out, tostring(replacement(found) or ""))
        else
            insert(out, expanded(replacement, found))
        end
        last = to + 1
        if to >= from then at = to + 1 else at = to + 2 end
        if not many then break end
    end
    insert(out, subject:sub(last))
    return concat(out), count
end
re.sub = function(s, p, r, o) return substitute(s, p, r, o, false) end
re.gsub = function(s, p, r, o) return substitute(s, p, r, o, true) end
ngx.re = library("ngx.re", re)

-- ngx.shared: dictionaries that all cores share.
local dict_meta = { __index = library("ngx.shared.DICT", {
    get = function(self, key) return host.dict_get(self.name, key) end,
    get_stale = function(self, key) return host.dict_get(self.name, key) end,
    set = function(self, key, value, ttl, flags) return host.dict_set(self.name, "set", key, value, ttl or 0) end,
    safe_set = function(self, key, value, ttl) return host.dict_set(self.name, "set", key, value, ttl or 0) end,
    add = function(self, key, value, ttl) return host.dict_set(self.name, "add", key, value, ttl or 0) end,
    safe_add = function(self, key, value, ttl) return host.dict_set(self.name, "add", key, value, ttl or 0) end,
    replace = function(self, key, value, ttl) return host.dict_set(self.name, "replace", key, value, ttl or 0) end,
    delete = function(self, key) host.dict_set(self.name, "set", key, nil, 0) end,
    incr = function(self, key, by, init, ttl) return host.dict_incr(self.name, key, by, init, ttl or 0) end,
    ttl = function(self, key) return host.dict_ttl(self.name, key) end,
    expire = function(self, key, ttl) return host.dict_expire(self.name, key, ttl) end,
    flush_all = function(self) host.dict_flush(self.name) end,
    flush_expired = function() return 0 end,
    get_keys = function(self, max) return host.dict_keys(self.name, max or 1024) end,
}), __metatable = false }
local dicts = {}
ngx.shared = setmetatable({}, { __index = function(_, name)
    local dict = dicts[name]
    if not dict then
        dict = setmetatable({ name = tostring(name) }, dict_meta)
        dicts[name] = dict
    end
    return dict
end, __newindex = function() error("attempt to change ngx.shared", 2) end, __metatable = false })
frozen[ngx.shared] = true

ngx.timer = library("ngx.timer", {
    at = function(delay, f, ...)
        host.timer(delay, f, { ... }, select("#", ...), false)
        return true
    end,
    every = function(delay, f, ...)
        host.timer(delay, f, { ... }, select("#", ...), true)
        return true
    end,
    running_count = function() return 0 end,
    pending_count = function() return 0 end,
})
ngx.thread = library("ngx.thread", {
    spawn = function(f, ...)
        local co = raw_create(f)
        local thread = { co = co }
        thread.result = { handed_on(co, raw_resume(co, ...)) }
        return thread
    end,
    wait = function(thread) return unpack(thread.result) end,
    kill = function() return true end,
})

local ngx_proxy = library("ngx", ngx)
-- `status`, `ctx` and `header` depend on the request.
do
    local meta = metatables[ngx_proxy]
    local contents = libraries[ngx_proxy]
    meta.__index = function(_, key)
        if key == "status" then return host.status() end
        if key == "ctx" then return host.ctx() end
        return contents[key]
    end
    meta.__newindex = function(_, key, value)
        if key == "status" then return host.set_status(value) end
        if key == "ctx" then return host.set_ctx(value) end
        error("attempt to change ngx." .. tostring(key) .. ": libraries are shared by all scripts", 2)
    end
end
base.ngx = ngx_proxy
base.ndk = library("ndk", { set_var = library("ndk.set_var", {
    set_escape_uri = host.escape_uri, set_unescape_uri = host.unescape_uri,
    set_encode_base64 = host.encode_base64, set_decode_base64 = host.decode_base64 }) })
base.print = function(...) host.log(levels.NOTICE, joined(...)) end

return {
    base = base, libraries = libraries, library = library, environment = environment, wait = wait, headers = headers,
    vars = vars, cjson = cjson, cjson_safe = cjson_safe, raw_yield = raw_yield, joined = joined, frozen = frozen,
    ctx_meta = ctx_meta, ngx = ngx_proxy, levels = levels, encode = encode, dicts = ngx.shared,
}
