-- Configuration files, users and policies of a Polaris: the columns that are read, and a row or two of each.
USE polaris_server;

CREATE TABLE config_file_group (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(128) NOT NULL,
    namespace VARCHAR(64) NOT NULL, comment VARCHAR(512), owner VARCHAR(1024), business VARCHAR(64),
    department VARCHAR(1024), metadata TEXT, flag TINYINT NOT NULL DEFAULT 0, create_by VARCHAR(32),
    modify_by VARCHAR(32), create_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    modify_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);
INSERT INTO config_file_group (id, namespace, name, comment, metadata, flag) VALUES
    (7, 'prod', 'shop', 'of the shop', '{"team":"blue"}', 0), (8, 'prod', 'gone', '', NULL, 1);

CREATE TABLE config_file (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, namespace VARCHAR(64) NOT NULL,
    `group` VARCHAR(128) NOT NULL, name VARCHAR(128) NOT NULL, content LONGTEXT NOT NULL, format VARCHAR(16),
    comment VARCHAR(512), flag TINYINT NOT NULL DEFAULT 0, create_by VARCHAR(32), modify_by VARCHAR(32),
    create_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, modify_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);
INSERT INTO config_file (id, namespace, `group`, name, content, format, create_by, modify_by) VALUES
    (3, 'prod', 'shop', 'app.yaml', 'pool: 9', 'yaml', 'mary', 'mary'),
    (4, 'prod', 'shop', 'draft.txt', 'unreleased', 'text', NULL, NULL);

CREATE TABLE config_file_tag (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, `key` VARCHAR(128) NOT NULL,
    `Value` VARCHAR(128) NOT NULL, namespace VARCHAR(64) NOT NULL, `group` VARCHAR(128) NOT NULL,
    file_name VARCHAR(128) NOT NULL);
INSERT INTO config_file_tag (`key`, `Value`, namespace, `group`, file_name) VALUES
    ('stage', 'live', 'prod', 'shop', 'app.yaml');

CREATE TABLE config_file_release (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(128),
    namespace VARCHAR(64) NOT NULL, `group` VARCHAR(128) NOT NULL, file_name VARCHAR(128) NOT NULL, format VARCHAR(16),
    content LONGTEXT NOT NULL, comment VARCHAR(512), md5 VARCHAR(128) NOT NULL, version BIGINT NOT NULL,
    flag TINYINT NOT NULL DEFAULT 0, active TINYINT NOT NULL DEFAULT 0, tags TEXT, description VARCHAR(512),
    release_type VARCHAR(25) NOT NULL DEFAULT '', create_by VARCHAR(32), modify_by VARCHAR(32),
    create_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, modify_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);
INSERT INTO config_file_release (id, name, namespace, `group`, file_name, format, content, md5, version, active, tags,
        release_type) VALUES
    (10, 'first', 'prod', 'shop', 'app.yaml', 'yaml', 'pool: 5', MD5('pool: 5'), 1, 0, '{"stage":"live"}', ''),
    (11, 'second', 'prod', 'shop', 'app.yaml', 'yaml', 'pool: 7', MD5('pool: 7'), 2, 1, '{"stage":"live"}', ''),
    (12, 'canary', 'prod', 'shop', 'app.yaml', 'yaml', 'pool: 8', MD5('pool: 8'), 3, 1, NULL, 'gray');
CREATE TABLE gray_resource (name VARCHAR(128) PRIMARY KEY, match_rule TEXT NOT NULL, flag TINYINT DEFAULT 0);
INSERT INTO gray_resource (name, match_rule) VALUES ('config@prod@shop@app.yaml',
    '[{"key":"lane","value":{"type":"EXACT","value":"canary","value_type":"TEXT"}}]');

CREATE TABLE config_file_release_history (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(64),
    namespace VARCHAR(64) NOT NULL, `group` VARCHAR(128) NOT NULL, file_name VARCHAR(128) NOT NULL,
    content LONGTEXT NOT NULL, format VARCHAR(16), comment VARCHAR(512), md5 VARCHAR(128) NOT NULL,
    type VARCHAR(32) NOT NULL, status VARCHAR(16) NOT NULL DEFAULT 'success', tags TEXT, version BIGINT,
    description VARCHAR(512), modify_by VARCHAR(32), modify_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);
INSERT INTO config_file_release_history (id, name, namespace, `group`, file_name, content, format, md5, type, status,
        version) VALUES
    (20, 'first', 'prod', 'shop', 'app.yaml', 'pool: 5', 'yaml', MD5('pool: 5'), 'normal', 'success', 1),
    (21, 'refused', 'prod', 'shop', 'app.yaml', 'pool: x', 'yaml', MD5('pool: x'), 'normal', 'fail', 1);
CREATE TABLE config_file_template (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(128) NOT NULL,
    content LONGTEXT NOT NULL, format VARCHAR(16), comment VARCHAR(512), create_by VARCHAR(32), modify_by VARCHAR(32),
    create_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, modify_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);
INSERT INTO config_file_template (name, content, format) VALUES ('pools', 'pool: 1', 'yaml');

CREATE TABLE user (id VARCHAR(128) PRIMARY KEY, name VARCHAR(100) NOT NULL, password VARCHAR(100) NOT NULL,
    owner VARCHAR(128) NOT NULL, source VARCHAR(32) NOT NULL, mobile VARCHAR(12) NOT NULL DEFAULT '',
    email VARCHAR(64) NOT NULL DEFAULT '', token VARCHAR(255) NOT NULL, token_enable TINYINT NOT NULL DEFAULT 1,
    comment VARCHAR(255) NOT NULL DEFAULT '', metadata TEXT, flag TINYINT NOT NULL DEFAULT 0,
    ctime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, mtime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);
INSERT INTO user (id, name, password, owner, source, token, token_enable) VALUES
    ('u1', 'mary', 'hash', '', 'Polaris', 'tokenofmary', 1), ('u2', 'bob', 'hash', 'u1', 'Polaris', 'tokenofbob', 1),
    ('u3', 'eve', 'hash', 'u1', 'Polaris', 'tokenofeve', 0);
CREATE TABLE user_group (id VARCHAR(128) PRIMARY KEY, name VARCHAR(100) NOT NULL, owner VARCHAR(128) NOT NULL,
    token VARCHAR(255) NOT NULL, token_enable TINYINT NOT NULL DEFAULT 1, comment VARCHAR(255) NOT NULL DEFAULT '',
    metadata TEXT, flag TINYINT NOT NULL DEFAULT 0, ctime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    mtime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);
INSERT INTO user_group (id, name, owner, token) VALUES ('g1', 'writers', 'u1', 'tokenofwriters');
CREATE TABLE user_group_relation (user_id VARCHAR(128) NOT NULL, group_id VARCHAR(128) NOT NULL,
    PRIMARY KEY (user_id, group_id));
INSERT INTO user_group_relation VALUES ('u2', 'g1'), ('u3', 'g1');

CREATE TABLE auth_strategy (id VARCHAR(128) PRIMARY KEY, name VARCHAR(100) NOT NULL, action VARCHAR(32) NOT NULL,
    owner VARCHAR(128) NOT NULL, comment VARCHAR(255) NOT NULL DEFAULT '', `default` TINYINT NOT NULL DEFAULT 0,
    source VARCHAR(32) NOT NULL DEFAULT '', metadata TEXT, flag TINYINT NOT NULL DEFAULT 0,
    ctime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, mtime TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);
INSERT INTO auth_strategy (id, name, action, owner) VALUES ('p1', 'files of the shop', 'READ_WRITE', 'u1'),
    ('p2', 'unknown kind', 'ALLOW', 'u1');
CREATE TABLE auth_principal (strategy_id VARCHAR(128) NOT NULL, principal_id VARCHAR(128) NOT NULL,
    principal_role INT NOT NULL, PRIMARY KEY (strategy_id, principal_id, principal_role));
INSERT INTO auth_principal VALUES ('p1', 'g1', 2), ('p2', 'u2', 1);
CREATE TABLE auth_strategy_resource (strategy_id VARCHAR(128) NOT NULL, res_type INT NOT NULL, res_id VARCHAR(128)
    NOT NULL, PRIMARY KEY (strategy_id, res_type, res_id));
INSERT INTO auth_strategy_resource VALUES ('p1', 2, '7'), ('p2', 99, '*');
