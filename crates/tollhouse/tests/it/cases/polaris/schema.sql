-- The columns of a Polaris' database that are read, written from what is known of them, and one row or two of each.
CREATE DATABASE polaris_server CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
USE polaris_server;
SET time_zone = '+00:00';

CREATE TABLE namespace (name VARCHAR(64) PRIMARY KEY, comment VARCHAR(1024), token VARCHAR(64) NOT NULL,
    owner VARCHAR(1024) NOT NULL, flag TINYINT NOT NULL DEFAULT 0, service_export_to TEXT, metadata TEXT,
    ctime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, mtime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);
INSERT INTO namespace (name, comment, token, owner, flag, service_export_to, metadata) VALUES
    ('default', 'Default Environment', 'tokenofdefault', 'polaris', 0, NULL, NULL),
    ('prod', 'Bestellungen – ä', 'tokenofprod', 'me', 0, '{"default":{}}', '{"zone":"a"}'),
    ('gone', '', 't', '', 1, NULL, NULL);

CREATE TABLE service (id VARCHAR(32) PRIMARY KEY, name VARCHAR(128) NOT NULL, namespace VARCHAR(64) NOT NULL,
    ports TEXT, business VARCHAR(64), department VARCHAR(1024), cmdb_mod1 VARCHAR(1024), cmdb_mod2 VARCHAR(1024),
    cmdb_mod3 VARCHAR(1024), comment VARCHAR(1024), token VARCHAR(2048) NOT NULL, revision VARCHAR(32) NOT NULL,
    owner VARCHAR(1024) NOT NULL, flag TINYINT NOT NULL DEFAULT 0, reference VARCHAR(32), platform_id VARCHAR(32)
    DEFAULT '', export_to TEXT, ctime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    mtime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);
INSERT INTO service (id, name, namespace, comment, token, revision, owner, flag, reference) VALUES
    ('00000000000000000000000000000001', 'orders', 'prod', 'takes them', 't1', '0123456789abcdef0123456789abcdef',
        'me', 0, NULL),
    ('00000000000000000000000000000002', 'bestellungen', 'prod', '', 't2', '1123456789abcdef0123456789abcdef', 'me',
        0, '00000000000000000000000000000001'),
    ('00000000000000000000000000000003', 'lost', 'prod', '', 't3', '2123456789abcdef0123456789abcdef', 'me', 0,
        '000000000000000000000000000000ff'),
    ('00000000000000000000000000000004', 'polaris.checker', 'Polaris', '', 't4', '3123456789abcdef0123456789abcdef',
        'polaris', 0, NULL),
    ('00000000000000000000000000000005', 'old', 'prod', '', 't5', '4123456789abcdef0123456789abcdef', 'me', 1, NULL);

CREATE TABLE service_metadata (id VARCHAR(32) NOT NULL, mkey VARCHAR(128) NOT NULL, mvalue VARCHAR(4096) NOT NULL,
    PRIMARY KEY (id, mkey));
INSERT INTO service_metadata VALUES ('00000000000000000000000000000001', 'team', 'blue');

CREATE TABLE instance (id VARCHAR(128) PRIMARY KEY, service_id VARCHAR(32) NOT NULL, vpc_id VARCHAR(64),
    host VARCHAR(128) NOT NULL, port INT NOT NULL, protocol VARCHAR(32), version VARCHAR(32),
    health_status TINYINT NOT NULL DEFAULT 1, isolate TINYINT NOT NULL DEFAULT 0, weight SMALLINT NOT NULL DEFAULT 100,
    enable_health_check TINYINT NOT NULL DEFAULT 0, logic_set VARCHAR(128), cmdb_region VARCHAR(128),
    cmdb_zone VARCHAR(128), cmdb_idc VARCHAR(128), priority TINYINT NOT NULL DEFAULT 0, revision VARCHAR(32) NOT NULL,
    flag TINYINT NOT NULL DEFAULT 0, ctime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    mtime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE health_check (id VARCHAR(128) PRIMARY KEY, type TINYINT NOT NULL DEFAULT 0, ttl INT NOT NULL);
CREATE TABLE instance_metadata (id VARCHAR(128) NOT NULL, mkey VARCHAR(128) NOT NULL, mvalue VARCHAR(4096) NOT NULL,
    PRIMARY KEY (id, mkey));
-- Three pages and a bit, so that their ends are met.
INSERT INTO instance (id, service_id, host, port, weight, cmdb_zone, revision)
    SELECT CONCAT('i', LPAD(seq, 4, '0')), '00000000000000000000000000000001', CONCAT('10.0.', seq DIV 250, '.',
        seq MOD 250), 8080, seq MOD 200, 'zone-a', MD5(seq) FROM seq_1_to_800;
INSERT INTO instance_metadata SELECT id, 'number', RIGHT(id, 4) FROM instance;
INSERT INTO instance (id, service_id, host, port, protocol, health_status, isolate, enable_health_check, revision,
        flag) VALUES
    ('silent', '00000000000000000000000000000001', '10.9.0.1', 80, 'grpc', 0, 1, 1, MD5('silent'), 0),
    ('orphan', '000000000000000000000000000000ff', '10.9.0.2', 80, NULL, 1, 0, 0, MD5('orphan'), 0),
    ('checker', '00000000000000000000000000000004', '10.9.0.3', 8091, 'service-grpc', 1, 0, 1, MD5('checker'), 0),
    ('removed', '00000000000000000000000000000001', '10.9.0.4', 80, NULL, 1, 0, 0, MD5('removed'), 1);
INSERT INTO health_check VALUES ('silent', 1, 5), ('checker', 1, 2);

CREATE TABLE routing_config (id VARCHAR(32) PRIMARY KEY, in_bounds TEXT, out_bounds TEXT, revision VARCHAR(40) NOT NULL,
    flag TINYINT NOT NULL DEFAULT 0, ctime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    mtime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE routing_config_v2 (id VARCHAR(128) PRIMARY KEY, name VARCHAR(64) NOT NULL DEFAULT '',
    namespace VARCHAR(64) NOT NULL DEFAULT '', policy VARCHAR(64) NOT NULL, config TEXT, enable INT NOT NULL DEFAULT 0,
    revision VARCHAR(40) NOT NULL, description VARCHAR(500) NOT NULL DEFAULT '', priority SMALLINT NOT NULL DEFAULT 0,
    flag TINYINT NOT NULL DEFAULT 0, ctime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    mtime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, etime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);
INSERT INTO routing_config_v2 (id, name, policy, config, enable, revision) VALUES
    ('r1', 'by header', 'RulePolicy', '{"sources":[{"service":"*","namespace":"*"}],"destinations":[{"service":"orders",
        "namespace":"prod","weight":100}]}', 1, MD5('r1')),
    ('r2', 'broken', 'RulePolicy', '{"sources":', 1, MD5('r2'));

CREATE TABLE ratelimit_config (id VARCHAR(32) PRIMARY KEY, name VARCHAR(64) NOT NULL, disable TINYINT NOT NULL DEFAULT 0,
    service_id VARCHAR(32) NOT NULL, method VARCHAR(512) NOT NULL, labels TEXT NOT NULL, priority SMALLINT NOT NULL
    DEFAULT 0, rule TEXT NOT NULL, revision VARCHAR(32) NOT NULL, flag TINYINT NOT NULL DEFAULT 0,
    ctime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, mtime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    etime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);
INSERT INTO ratelimit_config (id, name, service_id, method, labels, rule, revision) VALUES
    ('l1', 'ten a second', '00000000000000000000000000000001', '/pay', '{}',
        '{"amounts":[{"maxAmount":{"value":10},"validDuration":{"seconds":1}}]}', MD5('l1'));

-- What an export writes besides. The rows of a Polaris have a time of their own change.
CREATE TABLE owner_service_map (id VARCHAR(32) PRIMARY KEY, owner VARCHAR(32) NOT NULL, service VARCHAR(128) NOT NULL,
    namespace VARCHAR(64) NOT NULL);
CREATE TABLE ratelimit_revision (service_id VARCHAR(32) PRIMARY KEY, last_revision VARCHAR(40) NOT NULL,
    mtime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP);
CREATE TABLE circuitbreaker_rule_v2 (id VARCHAR(128) PRIMARY KEY, name VARCHAR(64) NOT NULL, namespace VARCHAR(64) NOT NULL
    DEFAULT '', enable INT NOT NULL DEFAULT 0, revision VARCHAR(40) NOT NULL, description VARCHAR(1024) NOT NULL DEFAULT '',
    level INT NOT NULL, src_service VARCHAR(128) NOT NULL, src_namespace VARCHAR(64) NOT NULL, dst_service VARCHAR(128)
    NOT NULL, dst_namespace VARCHAR(64) NOT NULL, dst_method VARCHAR(128) NOT NULL, config TEXT, flag TINYINT NOT NULL
    DEFAULT 0, ctime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, mtime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    etime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE fault_detect_rule (id VARCHAR(128) PRIMARY KEY, name VARCHAR(64) NOT NULL, namespace VARCHAR(64) NOT NULL,
    revision VARCHAR(40) NOT NULL, description VARCHAR(1024) NOT NULL DEFAULT '', dst_service VARCHAR(128) NOT NULL,
    dst_namespace VARCHAR(64) NOT NULL, dst_method VARCHAR(128) NOT NULL, config TEXT, flag TINYINT NOT NULL DEFAULT 0,
    ctime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, mtime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE lane_group (id VARCHAR(128) PRIMARY KEY, name VARCHAR(64) NOT NULL UNIQUE, rule TEXT NOT NULL,
    description VARCHAR(3000), revision VARCHAR(40) NOT NULL, flag TINYINT DEFAULT 0, ctime TIMESTAMP NOT NULL DEFAULT
    CURRENT_TIMESTAMP, mtime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE lane_rule (id VARCHAR(128) PRIMARY KEY, name VARCHAR(64) NOT NULL, group_name VARCHAR(64) NOT NULL,
    rule TEXT NOT NULL, revision VARCHAR(40) NOT NULL, description VARCHAR(3000), enable TINYINT, flag TINYINT DEFAULT 0,
    priority BIGINT NOT NULL DEFAULT 0, ctime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, etime TIMESTAMP NOT NULL
    DEFAULT CURRENT_TIMESTAMP, mtime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, UNIQUE KEY (group_name, name));
ALTER TABLE service ADD UNIQUE KEY (name, namespace);
